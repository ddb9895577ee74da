"""Independent jobs over several processes, each result stored on disk until the run is complete.

A resumed run does only the missing jobs. Results are stored in a folder named by a fingerprint of everything they depend
on, so that a run with other settings or other code never reads them.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from pathlib import Path
from typing import Any, NamedTuple

from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.reading.json_text import read_json
from creditflow.train.progress import progress
from creditflow.train.rollout.workers.pool import open_job_pool

__all__ = ["Job", "JobRunner", "fingerprint"]


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
