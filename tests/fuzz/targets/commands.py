"""Commands resumed from damaged files of their own."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from creditflow.envs.errors import CreditflowError
from creditflow.train.cli import main
from fuzz.mutate_data import mutate_lines
from fuzz.samples import log_text
from fuzz.target import MismatchError, Target

PLAIN = ("--env", "sokoban", "--panel", "small-v1:train", "--limit", "2", "--group-size", "2", "--agent", "noisy:0.5")


class CommandFailedError(CreditflowError):
    """A command failed with an error of ours; the message is its output."""


def command(*words: str) -> None:
    """Run a command as a user types it.

    Raises:
        CommandFailedError: it ended with an error message.
        MismatchError: it reported a defect in creditflow.
    """
    output = io.StringIO()
    with contextlib.redirect_stderr(output), contextlib.redirect_stdout(io.StringIO()):
        code = main(list(words))
    if code and "a defect in creditflow" in output.getvalue():
        raise MismatchError(f"{words[0]}: {output.getvalue()[-300:]}")
    if code:
        raise CommandFailedError(output.getvalue()[-5000:])


def _resume(data: bytes, folder: Path) -> None:
    """Resume a rollout whose partial log is damaged."""
    (folder / "log.jsonl.partial").write_bytes(data)
    command("rollout", *PLAIN, "--resume", "--out", str(folder / "log.jsonl"))


def _partial(place: Path) -> Sequence[bytes]:
    command("rollout", *PLAIN, "--out", str(place / "log.jsonl"))
    return [b""]


def _left(rng: np.random.Generator, _: Sequence[bytes]) -> bytes:
    return mutate_lines(rng, [log_text("sokoban").encode("ascii")])


TARGETS = (
    Target(
        name="commands/resume", read=_resume, seeds=_partial, mutate=_left, cases=30, seconds=10.0, place="log.jsonl.partial",
        traps=lambda: [b"\xff\xfe", b"caf\xc3\xa9\n", b"[" * 100_000 + b"\n", b'{"seed":' + b"9" * 5000 + b"}\n"],
    ),
)  # fmt: skip
