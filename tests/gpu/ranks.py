"""Two ranks: steps of verl's trainer on two GPUs, with the recipe and the random model of ``recipe.py``.

Our own trainer has one process, so what runs on several GPUs is ``creditflow train --engine verl``. On a CPU (``--dry-run``) two workers
take the steps with a toy model.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from gpu.pretrained import RECIPE
from gpu.recipe import SIZES, TOY_SIZES, write_model

__all__ = ["missing", "two_ranks"]

COMMON: Final = (
    "verl.gpus=2", "evaluation.panel=", "evaluation.final_panel=", "checkpoint.every=1000", "update.packing=padded",
    "update.old_logprobs=trainer", "update.iterations=2", "update.minibatches=1", "update.minibatch_unit=turn",
)  # fmt: skip
ON_GPUS: Final = ("rollout.tasks=8", "rollout.group_size=8", "update.minibatch_size=64", "rollout.max_new_tokens=128")
TOY: Final = (
    "rollout.tasks=2", "rollout.group_size=4", "update.minibatch_size=8", "rollout.max_new_tokens=4", "env.options.max_steps=2",
    "model.autocast=none", "device=cpu",
)  # fmt: skip
SECONDS: Final = 540.0
KEPT: Final = ("perf/", "timing_s/", "actor/grad_norm")  # of verl's metrics


def missing(toy: bool) -> str:
    """What this machine lacks for the part; "" if nothing."""
    if find_spec("verl") is None:
        return "verl is not installed: pip install -e '.[verl]'"
    devices = 2 if toy else torch.cuda.device_count()
    return "" if devices >= 2 else f"it needs two GPUs, and torch sees {devices}"


def two_ranks(folder: Path, toy: bool) -> dict[str, Any]:
    """verl's own times and memory, of the last step.

    Args:
        folder: folder of the model and the run, which are replaced.
        toy: whether two workers on a CPU train a toy.

    Raises:
        ArithmeticError: the command failed, or a gradient is not finite.
    """
    shutil.rmtree(folder, ignore_errors=True)
    write_model(folder / "model", TOY_SIZES if toy else SIZES)
    out = folder / "run"
    sets = (f"out={out}", f"model.path={folder / 'model'}", *COMMON, *(TOY if toy else ON_GPUS))
    command = [sys.executable, "-m", "creditflow.train", "train", str(RECIPE), "--engine", "verl"]
    command += [part for setting in sets for part in ("--set", setting)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        try:
            output, _ = process.communicate(timeout=SECONDS)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)  # with the trainer, which would go on on the GPUs
            raise
    if process.returncode:
        raise ArithmeticError(f"verl's trainer ended with {process.returncode}: {output[-2000:]}")
    rows = (out / "verl" / "metrics-1.jsonl").read_text(encoding="utf-8").splitlines()
    data = json.loads(rows[-1])["data"]
    if not np.isfinite(data["actor/grad_norm"]):
        raise ArithmeticError(f"the gradient's norm is {data['actor/grad_norm']}")
    return {name: value for name, value in data.items() if name.startswith(KEPT)}
