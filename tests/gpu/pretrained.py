"""Credit schemes on the pretrained model at the size of a GPU: the study ``tests/evidence/pretrained`` with 48 iterations of 64 episodes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from gpu.pieces import OutOfTimeError

__all__ = ["run_study"]

ROWS: Final = "pretrained.jsonl"
WORKERS: Final = 4  # processes that share the device, a seed each
GPU: Final = ("model.autocast=bfloat16", "rollout.dtype=bfloat16", "update.batch_tokens=65536", "update.iterations=48")
TOY: Final = (
    *("update.iterations=1", "sft.steps=1", "sft.episodes=2", "rollout.tasks=1", "rollout.group_size=2"),
    *("evaluation.final_limit=1", "evaluation.limit=1", "evaluation.samples=1"),
)
TO_STOP: Final = 120.0  # seconds until an interrupted run has saved its step


def run_study(folder: Path, model: str, overrides: Sequence[str], toy: bool, seconds: float) -> dict[str, Any]:
    """Do the missing runs for a number of seconds, in processes of their own.

    Args:
        folder: of the results and runs.
        model: folder of the pretrained model.
        overrides: settings, "KEY=VALUE".
        toy: whether to do two runs of one seed with a step each.
        seconds: time limit.

    Raises:
        OutOfTimeError: runs are missing; those that are done are kept, and one that was stopped continues from its last step.
        ArithmeticError: the study failed; its messages are on standard error.
    """
    from evidence.pretrained import run as study  # it imports torch

    rows = folder / ROWS
    command = [
        sys.executable,
        study.__file__,
        "--model",
        model,
        "--out",
        str(rows),
        "--work",
        str(folder / "pretrained"),
    ]
    command += ["--seeds", "1", "--schemes", "grpo"] if toy else ["--workers", str(WORKERS)]
    command += [f"--set={setting}" for setting in (*(TOY if toy else GPU), *overrides)]
    with subprocess.Popen(command, start_new_session=True) as process:
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGINT)
            process.wait(TO_STOP)
            raise OutOfTimeError("the time limit is reached; the finished runs are kept for --resume") from None
    if status:
        raise ArithmeticError(f"the study ended with exit code {status}, see its messages above")
    return {"runs": len(rows.read_text(encoding="utf-8").splitlines())}
