"""A command that is stopped by a signal at many moments (SIGKILL: nothing is cleaned up), each time run again afterwards.

python killed_command.py: reads one JSON list a line, [FOLDER, SIGNAL, MOMENTS, FIRST, AGAIN], until its input ends. FIRST and
AGAIN are lists of arguments of ``creditflow``, in which {} stands for a folder below FOLDER. Answers each with a line: a JSON list
of the files after an uninterrupted run, then of the files after each signal, and after AGAIN.
Every child is forked from this process, which has imported everything and done nothing. SIGINT goes to all processes of a
command, as a terminal sends it.
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
from contextlib import suppress
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


def forked(work: Callable[[], int], log: Path, sent: int = signal.SIGKILL, delay: float = -1.0) -> tuple[int, bool]:
    """Run in a child process, and signal it after ``delay`` seconds unless that is negative.

    Returns:
        Its wait status, and whether all processes ended that it had started.
    """
    pid = os.fork()
    if pid == 0:
        os.setsid()
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT), 2)
        sys.exit(work())  # the interpreter ends as that of a command does
    if delay >= 0.0:
        time.sleep(delay)
        with suppress(ProcessLookupError):  # it has no session yet
            send(pid, sent)
    status = os.waitpid(pid, 0)[1]
    return status, ended(pid)


def send(pid: int, sent: int) -> None:
    """Send a signal to a process that leads a session; SIGINT to all its processes."""
    if sent == signal.SIGINT:
        os.killpg(pid, sent)
    else:
        os.kill(pid, sent)


def ended(session: int) -> bool:
    """Whether all processes of a session end within ten seconds."""
    for _ in range(200):
        try:
            os.killpg(session, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    os.killpg(session, signal.SIGKILL)
    return False


def killed_at(moment: int, sent: int, arguments: list[str], below: str) -> Callable[[], int]:
    """The command, which signals itself before change number ``moment``; with 0 it never does and writes the number of changes."""

    def work() -> int:
        seen = 0

        def hook(event: str, values: tuple[Any, ...]) -> None:
            nonlocal seen
            if changes(event, values, below):
                seen += 1
                if seen == moment:
                    send(os.getpid(), sent)

        sys.addaudithook(hook)
        signal.signal(signal.SIGINT, signal.default_int_handler)
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


def rounds(folder: Path, sent: int, moments: int, first: list[str], again: list[str]) -> list[dict[str, Any]]:
    def filled(arguments: list[str], place: Path) -> list[str]:
        return [argument.replace("{}", str(place)) for argument in arguments]

    whole = folder / "whole"
    whole.mkdir()
    began = time.monotonic()
    log = folder / "errors"
    status, _ = forked(killed_at(0, sent, filled(first, whole), str(whole)), log)
    seconds = time.monotonic() - began
    count = int(whole.with_suffix(".count").read_text(encoding="ascii")) if status == 0 else 0
    results: list[dict[str, Any]] = [
        {"whole": tree(whole), "status": status, "changes": count, "errors": log.read_text("utf-8")}
    ]
    if not count:
        return results
    rng = np.random.default_rng(moments)
    steps = sorted({1, count, *rng.integers(1, count + 1, moments - 2).tolist()})
    plan: list[tuple[int, float]] = [(step, -1.0) for step in steps]
    plan += [(-1, float(rng.uniform(0.0, seconds))) for _ in range(max(2, moments // 4))]
    for number, (step, delay) in enumerate(plan):
        place = folder / f"round{number}"
        place.mkdir()
        log.write_text("", "utf-8")
        status, alone = forked(killed_at(step, sent, filled(first, place), str(place)), log, sent, delay)
        errors, left = log.read_text("utf-8"), tree(place)
        code, _ = forked(partial(main, filled(again, place)), log)
        results.append(
            {
                "at": step, "delay": delay, "status": status, "alone": alone, "errors": errors, "left": left, "again": code,
                "after": tree(place), "errors_again": log.read_text("utf-8").removeprefix(errors),
            }
        )  # fmt: skip
        shutil.rmtree(place)
    return results


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # until a command begins
    for name in COMMANDS:
        command_module(name)
    for name in ENVIRONMENTS:
        make(name).reset(seed=0)
    for line in sys.stdin:
        place_, sent_, number_, first_, again_ = json.loads(line)
        print(json.dumps(rounds(Path(place_), sent_, number_, first_, again_)), flush=True)
