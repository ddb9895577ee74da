"""Properties of the commands: an input is never overwritten, and a run is never resumed with other options."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from creditflow.envs.errors import CreditflowError
from creditflow.train.cli import main
from fuzz.mutate_bytes import below, pick
from fuzz.mutate_data import mutate_lines
from fuzz.samples import log_text
from fuzz.target import MismatchError, Target

PLAIN = ("--env", "sokoban", "--panel", "small-v1:train", "--limit", "2", "--group-size", "2", "--agent", "noisy:0.5")
LIMIT = 6  # step limit of the episodes that are annotated
OTHERS = (
    ("--invalid-actions", "terminate"), ("--env-set", "max_steps=3"), ("--oracle",), ("--seed", "4"), ("--agent", "random"),
    ("--env-set", "reward=ten"), ("--env-set", "n_actions=9"), ("--panel", "small-v1:test"),
)  # fmt: skip
WRITERS = (
    "credit --scheme grpo LOG --out LOG", "view LOG --out LOG", "audit LOG --out LOG",
    "annotate --with oracle --env sokoban --panel small-v1:train LOG --out LOG",
    "data label LOG --out LOG", "data import searchr1 LOG --out LOG",
)  # fmt: skip


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


def _overwrites(data: bytes, folder: Path) -> None:
    """Name the input as the output too: directly, by a detour, or through a link."""
    words, way = data.decode().rsplit(" ", 1)
    log = folder / "log.jsonl"
    before = log_text("sokoban").encode("ascii")
    log.write_bytes(before)
    (folder / "sub").mkdir()
    (folder / "link.jsonl").symlink_to(log)
    (folder / "hard.jsonl").hardlink_to(log)
    out = {"plain": log, "detour": folder / "sub" / ".." / "log.jsonl", "link": folder / "link.jsonl",
           "hard": folder / "hard.jsonl"}[way]  # fmt: skip
    first, second = words.replace("LOG", str(log), 1), str(out)
    with contextlib.suppress(CommandFailedError, SystemExit):  # the error is expected
        command(*first.replace("LOG", second).split())
    if not log.exists() or log.read_bytes() != before:
        raise MismatchError(f"{words}: the input was overwritten")


def _replaces(data: bytes, folder: Path) -> None:
    """Check that an existing output is not replaced unless that is requested."""
    log, out = folder / "log.jsonl", folder / "out.jsonl"
    log.write_text(log_text("sokoban"), encoding="ascii")
    out.write_text("earlier results\n", encoding="ascii")
    words = data.decode().replace("LOG", str(log), 1).replace("LOG", str(out)).replace("OUT", str(out))
    with contextlib.suppress(CommandFailedError, SystemExit):
        command(*words.split())
    if out.read_text(encoding="ascii") != "earlier results\n":
        raise MismatchError(f"{data.decode()}: an existing file was replaced")


def _mixes(data: bytes, folder: Path) -> None:
    """Check that an interrupted rollout is not resumed with other options."""
    out = folder / "log.jsonl"
    command("rollout", *PLAIN, "--out", str(out))
    whole = out.read_bytes()
    lines = whole.splitlines(keepends=True)
    left = [path for path in folder.iterdir() if path != out]
    for path in left:  # files that identify the run may lie beside the log
        path.rename(path.with_name(path.name.replace("log.jsonl", "log.jsonl.partial", 1)))
    out.unlink()
    (folder / "log.jsonl.partial").write_bytes(b"".join(lines[:2]))
    changed = data.decode().split()
    try:
        command("rollout", *PLAIN, *changed, "--resume", "--out", str(out))
    except CommandFailedError:
        return
    if changed:
        raise MismatchError(f"a rollout is resumed with {' '.join(changed)}: two experiments in one file")
    if out.read_bytes() != whole:
        raise MismatchError("a resumed rollout writes another file")


def _resume(data: bytes, folder: Path) -> None:
    """Resume a rollout whose partial log is damaged."""
    (folder / "log.jsonl.partial").write_bytes(data)
    command("rollout", *PLAIN, "--resume", "--out", str(folder / "log.jsonl"))


def _limits(data: bytes, folder: Path) -> None:
    """Replay a log with another step limit; the error must name the limit."""
    annotator, limit = data.decode().split()
    log = folder / "log.jsonl"
    log.write_bytes(_truncated_log())
    words = ("annotate", "--with", annotator, *PLAIN[:4], "--env-set", f"max_steps={limit}", str(log))
    command(*words, "--out", str(folder / "out.jsonl"))
    if int(limit) != LIMIT:
        raise MismatchError(f"{annotator} annotates episodes with a limit of {LIMIT} steps under a limit of {limit}")


@lru_cache(maxsize=1)
def _truncated_log() -> bytes:
    """Return a log of rollouts that reached their step limit."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "log.jsonl"
        command("rollout", *PLAIN[:-1], "random", "--env-set", f"max_steps={LIMIT}", "--out", str(path))
        return path.read_bytes()


def _partial(place: Path) -> Sequence[bytes]:
    command("rollout", *PLAIN, "--out", str(place / "log.jsonl"))
    return [b""]


def _left(rng: np.random.Generator, _: Sequence[bytes]) -> bytes:
    return mutate_lines(rng, [log_text("sokoban").encode("ascii")])


def _ways(rng: np.random.Generator, _: Sequence[bytes]) -> bytes:
    return f"{pick(rng, WRITERS)} {('plain', 'detour', 'link', 'hard')[below(rng, 4)]}".encode()


TARGETS = (
    Target(
        name="commands/overwrite", read=_overwrites, seeds=lambda _: [], mutate=_ways, cases=0, seconds=30.0,
        traps=lambda: [f"{words} {way}".encode() for words in WRITERS for way in ("plain", "link")],
    ),
    Target(
        name="commands/replace", read=_replaces, seeds=lambda _: [], mutate=_ways, cases=0, seconds=30.0,
        traps=lambda: [words.encode() for words in (*WRITERS, " ".join(("rollout", *PLAIN, "--out", "OUT")))],
    ),
    Target(
        name="commands/mix", read=_mixes, seeds=lambda _: [], mutate=_ways, cases=0, seconds=30.0,
        traps=lambda: [b"", *(" ".join(one).encode() for one in OTHERS)],
    ),
    Target(
        name="commands/limits", read=_limits, mutate=_ways, cases=0, place="max_steps", seconds=30.0,
        seeds=lambda _: [f"{one} {LIMIT}".encode() for one in ("oracle", "forks:2")],
        traps=lambda: [f"{one} {limit}".encode() for one in ("oracle", "forks:2") for limit in (1, LIMIT - 1, LIMIT + 30)],
    ),
    Target(
        name="commands/resume", read=_resume, seeds=_partial, mutate=_left, cases=30, seconds=10.0, place="log.jsonl.partial",
        traps=lambda: [b"\xff\xfe", b"caf\xc3\xa9\n", b"[" * 100_000 + b"\n", b'{"seed":' + b"9" * 5000 + b"}\n"],
    ),
)  # fmt: skip
