"""The benchmark ``lm`` with 20 million parameters, one seed after the other; the finished seeds are pooled.

A seed is one run of the suite (``creditflow bench --preset lm-20m``) in a process of its own, whose workers share the GPU.
Every training job is stored when it is done, so a run that is stopped at the time limit, or killed, is continued.
"""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from gpu.pieces import OutOfTimeError, Piece

from creditflow.envs.errors import DataError
from creditflow.envs.files.atomic import atomic_writer
from creditflow.train.bench.document import RunOptions
from creditflow.train.bench.jobs import begin_worker
from creditflow.train.bench.language_model.suite.report import language_model_conclusions, language_model_text
from creditflow.train.bench.language_model.suite.summary import endpoint
from creditflow.train.bench.results import read_results, write_results

__all__ = ["FOLDER", "PRESETS", "pool", "seed_pieces"]

FOLDER: Final = "lm"
PRESETS: Final = {False: "lm-20m", True: "lm-20m-smoke"}  # by whether it is the toy
SEED_SECONDS: Final = 300.0  # an assumption: 16 training runs of some 20 s of arithmetic each, several at a time
STOP_SECONDS: Final = 10.0  # for a stopped run to end


def seed_pieces(folder: Path, seeds: Sequence[int], *, device: str, workers: int, toy: bool) -> list[Piece]:
    """One piece per seed.

    Args:
        folder: folder of the runs.
        seeds: the seeds, in order.
        device: device of the models.
        workers: number of processes that share the device.
        toy: whether to use toy sizes.
    """
    return [
        Piece(f"lm/{seed}", SEED_SECONDS, partial(_run_seed, folder / f"seed-{seed}", seed, device, workers, toy))
        for seed in seeds
    ]


def _run_seed(folder: Path, seed: int, device: str, workers: int, toy: bool, seconds: float) -> dict[str, Any]:
    """Run or continue one seed within a number of seconds.

    Raises:
        OutOfTimeError: it was stopped.
        DataError: it failed; its messages are on standard error.
    """
    context = multiprocessing.get_context("spawn")  # a fork of a process that uses a GPU cannot use it
    child = context.Process(target=_measure_seed, args=(PRESETS[toy], folder, seed, device, workers))
    child.start()
    try:
        child.join(max(seconds, 0.0))
        in_time = not child.is_alive()
    finally:
        if child.is_alive():
            child.terminate()
            child.join(STOP_SECONDS)
            child.kill()
            child.join()
    if not in_time:
        raise OutOfTimeError("the time limit is reached; the finished training runs are kept for --resume")
    if child.exitcode:
        raise DataError(
            f"seed {seed} of the benchmark lm ended with exit code {child.exitcode}, see its messages above"
        )
    part = read_results(folder / "results.json")["language_models"]
    return {
        "success": {
            name: {method: float(np.mean(endpoint(curves, "held-out final"))) for method, curves in one["runs"].items()}
            for name, one in part["families"].items()
        },
        "start": {
            name: float(np.mean(one["start"][0]["held_out"]["sampled"])) for name, one in part["families"].items()
        },
    }


def _measure_seed(preset: str, folder: Path, seed: int, device: str, workers: int) -> None:
    """The process of one seed."""
    from creditflow.train.bench.language_model.suite.run import run_language_models

    begin_worker()  # it ends with its parent
    options = RunOptions(folder, workers, ("gpu",), resume=folder.exists())
    run_language_models(preset, options, seed=seed, device=device)


def pool(folder: Path, seeds: Sequence[int]) -> dict[str, Any] | None:
    """Pool the finished seeds: writes ``lm.json``, results for ``creditflow bench --show``, and ``lm.txt`` into ``folder``'s parent.

    Returns:
        The seeds, and the conclusions if there are two or more, over which intervals are taken; None without a finished seed.
    """
    done = [seed for seed in seeds if (folder / f"seed-{seed}" / "results.json").is_file()]
    if not done:
        return None
    documents = [read_results(folder / f"seed-{seed}" / "results.json") for seed in done]
    pooled = documents[0]
    families = pooled["language_models"]["families"]
    for other in documents[1:]:
        for name, family in other["language_models"]["families"].items():
            for part in ("start", "floors", "one_step"):
                families[name][part] += family[part]
            for method, curves in family["runs"].items():
                families[name]["runs"][method] += curves
    pooled["provenance"]["seconds"] = sum(one["provenance"]["seconds"] for one in documents)
    pooled["provenance"]["seeds"] = done
    pooled["sanity"] = [check for one in documents for check in one["sanity"]]
    write_results(pooled, folder.parent / "lm.json")
    failed = [json.dumps(check) for check in pooled["sanity"] if not check["passed"]]
    if len(done) < 2:
        return {"seeds": done, "failed_sanity_checks": failed}
    with atomic_writer(folder.parent / "lm.txt", encoding="utf-8") as stream:
        stream.write(language_model_text(pooled["language_models"]) + "\n")
    conclusions = language_model_conclusions(pooled["language_models"])
    return {"seeds": done, "failed_sanity_checks": failed, "conclusions": conclusions}
