"""Workers as processes of this machine, which exchange text through pipes."""

from __future__ import annotations

import json
import multiprocessing
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Protocol

from creditflow.envs.errors import ConfigError
from creditflow.envs.plugins import PluginError, naming_plugins
from creditflow.envs.reading.failures import summary
from creditflow.train.rollout.workers.pool import Event

__all__ = ["ProcessExecutor", "Spec", "Worker", "interrupts_held"]

STOP_SECONDS = 5.0  # a worker that does not end within this after SIGTERM is killed


class Worker(Protocol):
    """Does one work item after the other."""

    def play(self, item: str, /) -> str:
        """The result of a work item; both are ASCII."""
        ...


class Spec(Protocol):
    """Plain data that determine a worker."""

    def to_text(self) -> str:
        """Serialise to one line of JSON."""
        ...

    @staticmethod
    def open_worker(text: str) -> Worker:
        """The worker of a spec that ``to_text`` wrote."""
        ...


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold interrupts back meanwhile, and keep them for good from the processes that are started meanwhile.

    Ctrl-C reaches every process of a terminal. A process that is still starting cannot ignore it yet, and would print a traceback.
    """
    resource_tracker.ensure_running()  # its start releases interrupts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Worker:
    """One process, its pipe, and the index of the item it works on, if any."""

    def __init__(self, spec: Spec) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would copy the caller's threads and open files
        self.pipe, worker_end = context.Pipe()
        self.process: BaseProcess = context.Process(
            target=_serve, args=(worker_end, spec.open_worker, spec.to_text()), daemon=True
        )
        with interrupts_held():
            self.process.start()
        worker_end.close()  # so that the end of the process is seen here as an end of file
        self.item: int | None = None


class ProcessExecutor:
    """Runs work items on N processes.

    Args:
        spec: determines the workers.
        workers: N ≥ 1.
    """

    def __init__(self, spec: Spec, workers: int) -> None:
        if workers < 1:
            raise ConfigError(f"workers must be at least 1, got {workers}")
        self._spec = spec
        self._workers = [_Worker(spec) for _ in range(workers)]

    @property
    def size(self) -> int:
        """Number of items that can run at once."""
        return len(self._workers)

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the workers."""
        return tuple(worker.process.pid or 0 for worker in self._workers)

    def submit(self, item: int, text: str) -> None:
        """Start a work item on an idle worker."""
        worker = next(worker for worker in self._workers if worker.item is None)
        worker.item = item
        with suppress(
            OSError
        ):  # the process has ended: the next wait() reads the end of its pipe and reports the item as lost
            worker.pipe.send_bytes(text.encode("ascii"))

    def wait(self) -> list[Event]:
        """Wait until there is at least one event."""
        events: list[Event] = []
        while not events:
            ready = set(wait([worker.pipe for worker in self._workers]))
            for index, worker in enumerate(self._workers):
                if worker.pipe not in ready:
                    continue
                try:
                    kind, _, text = worker.pipe.recv_bytes().decode("ascii").partition("\n")
                except (EOFError, OSError):
                    event = self._replace(index)
                else:
                    error = str(json.loads(text)) if kind == "error" else ""
                    event = Event(-1 if worker.item is None else worker.item, None if error else text, error)
                    worker.item = None
                if event is not None:
                    events.append(event)
        return events

    def _replace(self, index: int) -> Event | None:
        """Replace a lost worker; returns the event of its item, if it had one."""
        worker = self._workers[index]
        worker.pipe.close()
        worker.process.join(STOP_SECONDS)
        code = worker.process.exitcode
        self._workers[index] = _Worker(self._spec)
        reason = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        return None if worker.item is None else Event(worker.item, reason=f"process {worker.process.pid}: {reason}")

    def close(self) -> None:
        """Stop all workers at once."""
        for worker in self._workers:
            worker.pipe.close()
            worker.process.terminate()
        for worker in self._workers:
            worker.process.join(STOP_SECONDS)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.process.close()


def _serve(pipe: Connection, open_worker: Callable[[str], Worker], spec: str) -> None:
    """The worker loop: read a work item and send back its result, until the pipe is closed."""
    # the parent handles interrupts, which do not reach this process; it closes the pipe
    worker: Worker | None = None
    while True:
        try:
            item = pipe.recv_bytes().decode("ascii")
        except EOFError:
            return
        try:
            with naming_plugins():
                worker = worker or open_worker(spec)
                reply = "result\n" + worker.play(item)
        except PluginError as error:
            reply = "error\n" + json.dumps(str(error))
        except BaseException as error:  # noqa: BLE001 - a plug-in may raise even SystemExit; the parent reports it and stops
            reply = "error\n" + json.dumps(summary(error))
        try:
            pipe.send_bytes(reply.encode("ascii"))
        except BrokenPipeError:
            return  # the parent has ended or closed the pipe early: nobody waits for this group
