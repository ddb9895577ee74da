"""One benchmark run as a document of plain JSON values: begun or resumed, written with its provenance, and read with checks."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import creditflow
from creditflow.envs.errors import DataError
from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.reading.json_text import read_json
from creditflow.train.bench.jobs import JobRunner, fingerprint
from creditflow.train.bench.report.sanity import sanity_checks
from creditflow.train.run.identity import require_same_folder, versions, write_run_file

__all__ = [
    "RESULTS_VERSION",
    "RunOptions",
    "code_digest",
    "commit",
    "measure_once",
    "provenance",
    "read_results",
    "write_results",
]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a run is executed; nothing here changes what it measures.

    Attributes:
        out: output folder; results of finished jobs are stored there meanwhile.
        workers: number of processes.
        command: command-line arguments, for the provenance.
        resume: continue the run in ``out`` if its settings are the same.
    """

    out: Path
    workers: int
    command: tuple[str, ...]
    resume: bool = False


def measure_once(
    measure: Callable[[JobRunner], Mapping[str, Any]], options: RunOptions, identity: Mapping[str, Any]
) -> dict[str, Any]:
    """Measure and write ``results.json`` into the output folder. A run that is complete is read, not measured again.

    Args:
        measure: does the run's jobs; returns the parts of the document that are not stated for every run.
        options: how the run is executed.
        identity: everything that the results depend on; versions are added. "preset", its "amounts" and the "seed" are in it.

    Returns:
        The document: plain JSON values.

    Raises:
        OtherRunError: the run to be resumed has other settings or was made by other code.
    """
    started, out = time.time(), options.out
    identity = {"versions": versions() | {"results": RESULTS_VERSION, "code": code_digest()}, **identity}
    results = out / "results.json"
    if options.resume:
        require_same_folder(out, identity, started=results.exists())
    runner = JobRunner(out / "unfinished", fingerprint(identity), options.workers)
    if options.resume and results.exists():
        runner.close()
        return read_results(results)
    write_run_file(out, identity)
    measured = measure(runner)
    document: dict[str, Any] = {
        "results_version": RESULTS_VERSION,
        "provenance": provenance(options.command, identity["seed"])
        | {"preset": identity["preset"], "workers": options.workers, "seconds": round(time.time() - started, 1)},
        "amounts": identity["amounts"],
        "suites": [],
        "sanity": [],
        **measured,
    }
    document["sanity"] = [check._asdict() for check in sanity_checks(document)]
    write_results(document, results)
    runner.close()
    return document


RESULTS_VERSION = 4
DOCUMENT_KEYS = {"provenance", "amounts", "suites", "sanity"}
SUITE_KEYS = {*("name", "spec", "horizon", "settings", "log", "expert"), *("schemes", "controls", "undefined")}
RESULT_KEYS = {"rows", "studies"}  # one of them: played through an environment, or a shared policy


def write_results(document: Mapping[str, Any], path: Path) -> None:
    """Write the document as JSON."""
    with atomic_writer(path) as stream:
        json.dump(document, stream, separators=(",", ":"), allow_nan=False)


def read_results(path: Path) -> dict[str, Any]:
    """Read a document, compressed or not.

    Raises:
        DataError: the file does not hold benchmark results of this version.
    """
    try:
        document = read_json(path)
    except DataError as error:
        raise DataError(f"{error}; {path} does not contain the results of a benchmark") from error
    version = document.get("results_version") if isinstance(document, dict) else None
    if not isinstance(document, dict) or version != RESULTS_VERSION:
        raise DataError(
            f"{path}: expected benchmark results of version {RESULTS_VERSION}, got version {version!r}; run the benchmark "
            "again, or read the file with the release that wrote it"
        )
    missing, suites = DOCUMENT_KEYS - document.keys(), document.get("suites")
    for suite in suites if isinstance(suites, list) else [suites]:
        missing |= SUITE_KEYS - suite.keys() if isinstance(suite, dict) else SUITE_KEYS
        missing |= set() if isinstance(suite, dict) and RESULT_KEYS & suite.keys() else {"studies"}
    if missing:
        raise DataError(f"{path}: these benchmark results lack {', '.join(sorted(missing))}")
    return document


def provenance(arguments: Sequence[str], seed: int) -> dict[str, Any]:
    """Command, commit, versions, kind of machine and seed."""
    return {
        "command": "creditflow " + " ".join(arguments),
        "commit": commit() or "unknown",  # a wheel has no repository
        "creditflow": creditflow.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "seed": seed,
    }


def commit() -> str:
    """The commit's first nine digits, with "-dirty" behind them if files were changed; "" without a repository."""
    return _git("describe", "--always", "--dirty", "--abbrev=9", "--exclude=*")  # never the name of a tag


def _git(*arguments: str) -> str:
    source = Path(__file__).resolve().parent
    try:
        return subprocess.run(  # noqa: S603 - a fixed command
            ["git", "-C", str(source), *arguments],  # noqa: S607 - git from the user's own path
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


@lru_cache(maxsize=1)
def code_digest() -> str:
    """Hash of the package's source, sixteen hexadecimal digits: finished jobs are reused only by the same code."""
    digest = hashlib.blake2b(digest_size=8)
    root = Path(creditflow.__file__).parent
    for folder in ("envs", "wrappers", "agents", "train"):
        for path in sorted((root / folder).rglob("*.py")):
            digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
