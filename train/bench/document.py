"""One benchmark run, whatever it measures: begun or resumed, its jobs, and ``results.json`` at its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from creditflow.train.bench.jobs import JobRunner, fingerprint
from creditflow.train.bench.report.provenance import code_digest, provenance
from creditflow.train.bench.report.sanity import sanity_checks
from creditflow.train.bench.results import RESULTS_VERSION, read_results, write_results
from creditflow.train.run.identity import require_same_folder, versions, write_run_file

__all__ = ["measure_once"]


def measure_once(
    measure: Callable[[JobRunner], Mapping[str, Any]],
    out: Path,
    *,
    identity: Mapping[str, Any],
    workers: int,
    command: Sequence[str],
    resume: bool,
) -> dict[str, Any]:
    """Measure and write ``results.json`` into ``out``; until then, results of finished jobs are stored there.

    A run that is complete is read, not measured again.

    Args:
        measure: does the run's jobs; returns the parts of the document that are not stated for every run.
        out: output folder.
        identity: everything that the results depend on; versions are added. "preset", its "amounts" and the "seed" are in it.
        workers: number of processes.
        command: command-line arguments, for the provenance.
        resume: continue the run in ``out`` if its identity is the same.

    Returns:
        The document: plain JSON values.

    Raises:
        OtherRunError: ``resume``, but the run in ``out`` has other settings or was made by other code.
    """
    started = time.time()
    identity = {"versions": versions() | {"results": RESULTS_VERSION, "code": code_digest()}, **identity}
    results = out / "results.json"
    if resume:
        require_same_folder(out, identity, started=results.exists())
    runner = JobRunner(out / "unfinished", fingerprint(identity), workers)
    if resume and results.exists():
        runner.close()
        return read_results(results)
    write_run_file(out, identity)
    measured = measure(runner)
    document: dict[str, Any] = {
        "results_version": RESULTS_VERSION,
        "provenance": provenance(command, identity["seed"])
        | {"preset": identity["preset"], "workers": workers, "seconds": round(time.time() - started, 1)},
        "amounts": identity["amounts"],
        "suites": [],
        "predictions": None,
        "sanity": [],
        **measured,
    }
    document["sanity"] = [check._asdict() for check in sanity_checks(document)]
    write_results(document, results)
    runner.close()
    return document
