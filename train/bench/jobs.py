"""Independent jobs over several processes, each result stored on disk until the run is complete.

A resumed run does only the missing jobs. Results are stored in a folder named by a fingerprint of everything they depend
on, so that a run with other settings or other code never reads them.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.plugins import naming_plugins
from creditflow.envs.reading.json_text import read_json
from creditflow.train.progress import progress
from creditflow.train.rollout.plugins import Carried, carried, load_carried
from creditflow.train.rollout.workers.pool import WorkerError, suspects
from creditflow.train.rollout.workers.processes import interrupts_held

__all__ = ["Job", "JobPool", "JobRunner", "begin_worker", "fingerprint", "open_job_pool"]


class Job(NamedTuple):
    """A function call.

    Attributes:
        name: name, distinct within a run; determines the file name.
        function: function, importable and pure; returns JSON values.
        arguments: positional arguments of the function.
    """

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


def fingerprint(*parts: Any) -> str:
    """Hash of JSON values, sixteen hexadecimal digits."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


class JobRunner:
    """Runs jobs, skipping those whose results are stored.

    Args:
        folder: folder of the stored results.
        cache_key: fingerprint of what all results depend on.
        workers: number of processes.

    Attributes:
        part: which part of the run the next jobs are, in front of the label of their progress.
    """

    def __init__(self, folder: Path, cache_key: str, workers: int) -> None:
        self._folder, self._workers = folder / cache_key, workers
        self.part = ""

    @property
    def folder(self) -> Path:
        """Folder of the stored results, deleted at the end; jobs may keep files there that later ones read."""
        return self._folder

    def run(self, jobs: Sequence[Job], what: str) -> dict[str, Any]:
        """Run the jobs; returns results by name, in the order of ``jobs``. Progress is shown on standard error.

        Args:
            jobs: jobs of the run; their names are distinct.
            what: label of the progress.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        results = dict(progress(self._results(jobs), f"{self.part}{what}", len(jobs)))
        return {job.name: results[job.name] for job in jobs}

    def close(self) -> None:
        """Delete the stored results, once the run's results are written."""
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._folder.parent.is_dir() and not any(self._folder.parent.iterdir()):
            self._folder.parent.rmdir()

    def _results(self, jobs: Sequence[Job]) -> Iterator[tuple[str, Any]]:
        missing = []
        for job in jobs:
            path = self._path(job)
            if path.exists():
                yield job.name, read_json(path)
            else:
                missing.append(job)
        if self._workers <= 1 or len(missing) <= 1:
            for job in missing:
                yield job.name, self._keep(job, job.function(*job.arguments))
            return
        with open_job_pool(min(self._workers, len(missing))) as pool:
            futures = {pool.submit(job.function, *job.arguments): job for job in missing}
            for future in as_completed(futures):
                yield futures[future].name, self._keep(futures[future], future.result())

    def _keep(self, job: Job, result: Any) -> Any:
        text = json.dumps(result, separators=(",", ":"), allow_nan=False)
        with atomic_writer(self._path(job)) as stream:
            stream.write(text)
        return json.loads(text)  # the same values as after an interruption

    def _path(self, job: Job) -> Path:
        return self._folder / f"{fingerprint(job.name)}.json"


class JobPool:
    """Processes that run functions; ``open_job_pool`` makes one.

    Args:
        workers: number of processes.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._executor = ProcessPoolExecutor(workers, initializer=begin_worker, initargs=(carried(),))
        self._results: Any = self._executor._result_queue
        self._processes: dict[int, BaseProcess] = {}  # by process id

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Start a function on the next idle process."""
        others = {process.pid for process in multiprocessing.active_children()} - self._processes.keys()
        with interrupts_held():
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
def open_job_pool(workers: int) -> Iterator[JobPool]:
    """A pool, whose processes have ended or are ending when the block is left; after an error, running functions are dropped.

    Raises:
        WorkerError: a process ended before its function did.
    """
    pool = JobPool(workers)
    try:
        yield pool
    except BrokenProcessPool as error:
        raise WorkerError(f"a worker was lost ({pool.end() or 'it ended'}). {suspects()}") from error
    except BaseException:
        pool.end()
        raise
    else:
        pool.close()


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
