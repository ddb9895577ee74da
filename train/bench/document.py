"""One benchmark run, whatever it measures: begun or resumed, its jobs, and ``results.json`` at its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from creditflow.train.bench.jobs import JobRunner, fingerprint
from creditflow.train.bench.report.provenance import code_digest, provenance
from creditflow.train.bench.report.sanity import sanity_checks
from creditflow.train.bench.results import RESULTS_VERSION, read_results, write_results
from creditflow.train.run.identity import require_same_folder, versions, write_run_file

__all__ = ["RunOptions", "measure_once"]


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
