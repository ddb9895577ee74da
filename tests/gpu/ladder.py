"""The larger sizes of the ladder, a study of its own: ``tests/evidence/ladder``. Its page says what is compared and was predicted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from gpu.pieces import OutOfTimeError

__all__ = ["ROWS", "run_ladder"]

ROWS: Final = "ladder.jsonl"
SIZES: Final = ("--sizes", "6,20,60", "--seeds", "10")
TOY: Final = ("--sizes", "0.1", "--seeds", "1", "--families", "pits", "--methods", "grpo,grouptd")


def run_ladder(rows: Path, device: str, workers: int, toy: bool, seconds: float) -> dict[str, Any]:
    """Run the missing jobs for a number of seconds, in a process of its own, whose workers share the device.

    Args:
        rows: file of the results.
        device: device of the models.
        workers: number of processes.
        toy: whether to run the smallest size, with two methods and one seed.
        seconds: time limit.

    Raises:
        OutOfTimeError: jobs are missing; those that are done are kept.
        ArithmeticError: the study failed; its messages are on standard error.
    """
    from evidence.ladder import run as study  # it imports torch

    command = [sys.executable, study.__file__, "--out", str(rows), *(TOY if toy else SIZES), "--device", device]
    command += ["--workers", str(workers), "--minutes", str(seconds / 60.0)]
    done = subprocess.run(command, check=False)
    if done.returncode == study.UNFINISHED:
        raise OutOfTimeError("the time limit is reached; the finished runs of the ladder are kept for --resume")
    if done.returncode:
        raise ArithmeticError(f"the ladder ended with exit code {done.returncode}, see its messages above")
    return {"runs": len(rows.read_text(encoding="utf-8").splitlines())}
