"""Runs cases in child processes with limited memory and processor time, and attributes crashes and hangs to their case.

RLIMIT_AS limits memory to what the process has mapped at its start plus the target's allowance. Time is processor time,
so that a busy machine causes no findings; a child that writes nothing for a long time is killed.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Final

from fuzz.target import Outcome, Target, case_rng, judge

__all__ = ["Case", "Result", "case_bytes", "run_cases", "traps_of"]

SILENCE: Final = 20.0  # times a case's seconds without output, by the wall clock: the machine may be busy
LEAST_SILENCE: Final = 60.0  # seconds


class SlowError(BaseException):
    """The alarm of a case; no ``except Exception`` of a reader catches it."""


@dataclass(frozen=True)
class Case:
    """One input.

    Attributes:
        name: "sample 0", "trap 3" or "7:120" (seed and number).
        valid: an unchanged sample.
    """

    name: str
    valid: bool = False


@dataclass(frozen=True)
class Result:
    """A case and its outcome.

    Attributes:
        case: the case.
        outcome: its outcome.
        data: its input, for findings only.
    """

    case: Case
    outcome: Outcome
    data: bytes = b""


@lru_cache(maxsize=4)
def traps_of(target: Target) -> tuple[bytes, ...]:
    """Return a target's traps, made once."""
    return tuple(target.traps())


def case_bytes(target: Target, case: Case, seeds: Sequence[bytes]) -> bytes:
    """Return the input of a case."""
    kind, _, number = case.name.partition(" ")
    if kind == "sample":
        return seeds[int(number)]
    if kind == "trap":
        return traps_of(target)[int(number)]
    seed, _, index = case.name.partition(":")
    return target.mutate(case_rng(int(seed), target.name, int(index)), seeds)


def run_cases(target: Target, seeds: Sequence[bytes], cases: Iterator[Case], until: float) -> Iterator[Result]:
    """Yield the results of all cases, or of those begun before ``until`` (``time.monotonic``).

    A child that dies is replaced, and the case that it ran is a finding.
    """
    batch = _ahead(cases)
    while batch and time.monotonic() < until:
        done = 0
        for result in _one_child(target, seeds, batch, until):
            done += 1
            yield result
        batch = batch[done:] or _ahead(cases)


def _ahead(cases: Iterator[Case]) -> list[Case]:
    """Return the next cases, at most 500, for one child."""
    return [case for case, _ in zip(cases, range(500), strict=False)]


def _one_child(target: Target, seeds: Sequence[bytes], batch: Sequence[Case], until: float) -> Iterator[Result]:
    reading, writing = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        os.setpgid(0, 0)
        code = 1
        try:
            _work(target, seeds, batch, until, writing)
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    silence = max(LEAST_SILENCE, SILENCE * target.seconds)
    count, buffer, hung = 0, b"", False
    try:
        while True:
            if not select.select([reading], [], [], silence)[0]:
                hung = True
                break
            piece = os.read(reading, 1 << 16)
            if not piece:
                break
            buffer += piece
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                outcome = Outcome(**json.loads(line))
                found = outcome.kind == "finding"
                yield Result(batch[count], outcome, case_bytes(target, batch[count], seeds) if found else b"")
                count += 1
    finally:
        status = _end(pid)
        os.close(reading)
    if count < len(batch) and (hung or status != 0):
        what = f"hangs: no output within {silence:g} s" if hung else _death(status)
        yield Result(batch[count], Outcome("finding", what), case_bytes(target, batch[count], seeds))
    elif count < len(batch) and time.monotonic() < until:
        raise RuntimeError(f"{target.name}: a child ended early without an error")


def _end(pid: int) -> int:
    """Wait for a child, or kill it and its children; return its wait status (0: it succeeded)."""
    for _ in range(100):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        time.sleep(0.01)
    else:
        os.killpg(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    return status


def _death(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"dies of {signal.Signals(os.WTERMSIG(status)).name}"
    return f"exits with {os.WEXITSTATUS(status)}"


def _work(target: Target, seeds: Sequence[bytes], batch: Sequence[Case], until: float, pipe: int) -> None:
    """Run the cases in the child, and write one line of JSON per case into the pipe."""
    faulthandler.disable()  # the parent reports the signal
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit = mapped + (target.megabytes << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, _alarm)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)  # the output of commands is discarded
    os.dup2(null, 2)
    for case in batch:
        if time.monotonic() >= until:
            return
        line = json.dumps(_one(target, seeds, case).__dict__) + "\n"
        os.write(pipe, line.encode("ascii"))


def _one(target: Target, seeds: Sequence[bytes], case: Case) -> Outcome:
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    error: BaseException | None = None
    try:
        data = case_bytes(target, case, seeds)
        signal.setitimer(signal.ITIMER_PROF, target.seconds, 1.0)  # repeated every second: a reader may catch one
        try:
            target.read(data, folder)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0.0)
    except BaseException as caught:  # noqa: BLE001 - judged and reported, whatever it is
        error = caught
    try:
        return judge(target, error, valid=case.valid)
    finally:
        error = None
        shutil.rmtree(folder, ignore_errors=True)


def _alarm(_signal: int, _frame: FrameType | None) -> None:
    raise SlowError("the case exceeds its processor time")
