"""A command that is killed (SIGKILL, nothing cleaned up) at many moments, each time run again afterwards.

python killed_command.py: reads one JSON list a line, [FOLDER, MOMENTS, FIRST, AGAIN], until its input ends. FIRST and AGAIN
are lists of arguments of ``creditflow``, in which {} stands for a folder below FOLDER. Answers each with a line: a JSON list
of the files after an uninterrupted run, then of the files after each kill, and after AGAIN.
Every child is forked from this process, which has imported everything and done nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from creditflow.envs.registration import ENVIRONMENTS, make
from creditflow.train.cli import COMMANDS, command_module, main

EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"}


def changes(event: str, arguments: Sequence[Any], below: str) -> bool:
    """Whether an audit event is a change of the file system below a folder."""
    if event not in EVENTS or not isinstance(arguments[0], str | bytes | os.PathLike):
        return False
    reads = event == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    return not reads and os.fsdecode(arguments[0]).startswith(below)


def forked(work: Callable[[], int], delay: float = -1.0) -> int:
    """Run in a child process and return its wait status; kill it after ``delay`` seconds unless that is negative."""
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(os.open(os.environ.get("KILLED_LOG", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT), 2)
            code = work()
        finally:
            os._exit(code)
    if delay >= 0.0:
        time.sleep(delay)
        os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]


def killed_at(moment: int, arguments: list[str], below: str) -> Callable[[], int]:
    """The command, which kills itself before change number ``moment``; with 0 it never does and writes the number of changes."""

    def work() -> int:
        seen = 0

        def hook(event: str, values: tuple[Any, ...]) -> None:
            nonlocal seen
            if changes(event, values, below):
                seen += 1
                if seen == moment:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        code = main(arguments)
        if not moment:
            Path(below).with_suffix(".count").write_text(str(seen), encoding="ascii")
        return code

    return work


def tree(folder: Path) -> dict[str, str]:
    """SHA-256 of every file, and "folder" for every empty folder, by relative path."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        elif not any(path.iterdir()):
            found[name] = "folder"
    return found


def rounds(folder: Path, moments: int, first: list[str], again: list[str]) -> list[dict[str, Any]]:
    def filled(arguments: list[str], place: Path) -> list[str]:
        return [argument.replace("{}", str(place)) for argument in arguments]

    whole = folder / "whole"
    whole.mkdir()
    began = time.monotonic()
    status = forked(killed_at(0, filled(first, whole), str(whole)))
    seconds = time.monotonic() - began
    count = int(whole.with_suffix(".count").read_text(encoding="ascii")) if status == 0 else 0
    results: list[dict[str, Any]] = [{"whole": tree(whole), "status": status, "changes": count}]
    if not count:
        return results
    rng = np.random.default_rng(moments)
    steps = sorted({1, count, *rng.integers(1, count + 1, moments - 2).tolist()})
    plan: list[tuple[int, float]] = [(step, -1.0) for step in steps]
    plan += [(-1, float(rng.uniform(0.0, seconds))) for _ in range(max(2, moments // 4))]
    for number, (step, delay) in enumerate(plan):
        place = folder / f"round{number}"
        place.mkdir()
        status = forked(killed_at(step, filled(first, place), str(place)), delay)
        left = tree(place)
        code = forked(partial(main, filled(again, place)))
        results.append(
            {"at": step, "delay": delay, "status": status, "left": left, "again": code, "after": tree(place)}
        )
        shutil.rmtree(place)
    return results


if __name__ == "__main__":
    for name in COMMANDS:
        command_module(name)
    for name in ENVIRONMENTS:
        make(name).reset(seed=0)
    for line in sys.stdin:
        place_, number_, first_, again_ = json.loads(line)
        print(json.dumps(rounds(Path(place_), number_, first_, again_)), flush=True)
