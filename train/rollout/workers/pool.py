"""Processes that run functions for a command, such as the rollouts of one task each.

A lost process is an error: its command stops, keeps what is written, and continues with ``--resume``.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from multiprocessing import resource_tracker
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import Any

from creditflow.envs.errors import CreditflowError
from creditflow.envs.plugins import loaded, naming_plugins
from creditflow.train.rollout.plugins import Carried, carried, load_carried

__all__ = ["JobPool", "WorkerError", "begin_worker", "open_job_pool", "run_in_order"]

ITEMS_PER_WORKER = 4  # started and not yet yielded


class WorkerError(CreditflowError):
    """A process ended before its function did."""


def run_in_order(function: Callable[[str], str], items: Sequence[str], workers: int) -> Generator[str, None, None]:
    """Yield ``function(item)`` in the order of ``items``, computed on several processes, which end when this is left.

    At most four items per worker are started beyond those that were yielded, so that a slow item or a slow reader stops the rest
    and memory stays bounded.

    Args:
        function: can be pickled; so can what it raises.
        items: the work items.
        workers: number of processes.

    Raises:
        WorkerError: a process was lost.
    """
    rest = iter(items)
    # a fork would copy the caller's threads and open files
    with open_job_pool(workers, multiprocessing.get_context("spawn")) as pool:
        started = deque(pool.submit(function, item) for item in islice(rest, ITEMS_PER_WORKER * workers))
        while started:
            yield started.popleft().result()
            started.extend(pool.submit(function, item) for item in islice(rest, 1))


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold interrupts back meanwhile, and keep them for good from the processes that are started meanwhile.

    Ctrl-C reaches every process of a terminal. A process that is still starting cannot ignore it yet, and would print a traceback.
    """
    resource_tracker.ensure_running()  # its start releases interrupts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class JobPool:
    """Processes that run functions; ``open_job_pool`` makes one.

    Args:
        workers: number of processes.
        context: how processes start; default as Python does on this system.
    """

    def __init__(self, workers: int, context: BaseContext | None = None) -> None:
        self.workers = workers
        self._executor = ProcessPoolExecutor(workers, context, initializer=begin_worker, initargs=(carried(),))
        self._results: Any = self._executor._result_queue
        self._processes: dict[int, BaseProcess] = {}  # by process id

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Start a function on the next idle process."""
        others = {process.pid for process in multiprocessing.active_children()} - self._processes.keys()
        with _interrupts_held():
            future = self._executor.submit(_named, function, *arguments)
        for process in multiprocessing.active_children():
            if process.pid is not None and process.pid not in others:
                self._processes[process.pid] = process
        return future

    def end(self) -> str:
        """End all processes at once, without waiting for what they run; returns how those ended that did so by themselves."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        for process in self._processes.values():
            process.terminate()
        deadline = time.monotonic() + 5.0  # while the executor's thread collects a process, its exit code is None
        while any(process.exitcode is None for process in self._processes.values()) and time.monotonic() < deadline:
            time.sleep(0.01)
        # a process that ended while it sent a result left half of one, and its end shows only where nothing can send the rest
        self._results._writer.close()
        return ", ".join(
            f"process {pid}: {f'signal {-code}' if code < 0 else f'exit code {code}'}"
            for pid, process in self._processes.items()
            if (code := process.exitcode) is not None and code not in (0, -signal.SIGTERM)
        )

    def close(self) -> None:
        """Wait for what is running, then end the processes."""
        self._executor.shutdown()


@contextmanager
def open_job_pool(workers: int, context: BaseContext | None = None) -> Iterator[JobPool]:
    """A pool, whose processes have ended or are ending when the block is left; after an error, running functions are dropped.

    Raises:
        WorkerError: a process ended before its function did.
    """
    pool = JobPool(workers, context)
    try:
        yield pool
    except BrokenProcessPool as error:
        raise WorkerError(f"a worker was lost ({pool.end() or 'it ended'}). {_suspects()}") from error
    except BaseException:
        pool.end()
        raise
    else:
        pool.close()


def _suspects() -> str:
    """What may have ended a process without an error."""
    plugins = ", ".join(f"{plugin.kind} {plugin.name!r} ({plugin.code.spec})" for plugin in loaded())
    ends = f"or your code ended the process: {plugins}" if plugins else "or compiled code crashed"
    return f"Memory ran out (use fewer workers), {ends}"


def _named(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run a function in a worker; its error arrives without the traceback, from which a plug-in is identified."""
    with naming_plugins():
        return function(*arguments)


def begin_worker(plugins: Carried = ()) -> None:
    """Leave interrupts to the parent process, end when it is gone, even if it was killed, and load its plug-ins."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    load_carried(plugins)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
