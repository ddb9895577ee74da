"""Logs that are written group by group to OUT.partial, which becomes OUT when it is complete.

After an interruption the last line of OUT.partial may be incomplete; the groups before it are kept when the command is resumed.
"""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from creditflow.envs.errors import ConfigError, DataError, TrajectoryError
from creditflow.envs.files.appended import complete_lines
from creditflow.envs.reading.limits import MAX_LINE
from creditflow.envs.reading.streams import read_lines
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import FORMAT_VERSION, read_groups, write_jsonl

__all__ = ["complete_groups", "partial_of", "write_log"]

SUFFIX: Final = ".partial"
BEGINNING: Final = f'{{"format_version":{FORMAT_VERSION},'  # of every line


def partial_of(out: Path) -> Path:
    """Path of the partial log, which is written until the log is complete; beside the file that a link names."""
    out = Path(os.path.realpath(out))
    return out.with_name(out.name + SUFFIX)


def write_log(
    out: Path,
    remaining: Callable[[int], Iterable[Sequence[Group]]],
    *,
    finished: Callable[[Path], list[Group]],
    resume: bool,
) -> tuple[list[Group], int]:
    """Write a log, or the rest of an interrupted one.

    Args:
        out: a .jsonl or .jsonl.gz file.
        remaining: yields the groups after the first n, some at a time; each part is written to OUT.partial before the next
            is requested.
        finished: reads the complete groups of an interrupted log, and checks that this command would write the same.
        resume: continue OUT.partial, or add groups to OUT.

    Returns:
        All groups, and the number of them that were already in the interrupted log.

    Raises:
        ConfigError: an interrupted command left groups in OUT.partial, and ``resume`` is False.
    """
    partial = partial_of(out)
    done: list[Group] = []
    if partial.exists() and partial.stat().st_size and not resume:
        raise ConfigError(
            f"{partial} is left from an interrupted run: continue it with --resume, or start over with --force"
        )
    written = partial if partial.exists() else out
    if resume and written.exists():
        done = finished(written)
        write_jsonl(partial, done)  # without an incomplete last group
    resumed = len(done)
    out.parent.mkdir(parents=True, exist_ok=True)
    with partial.open("a", encoding="ascii") as stream:
        if out.exists():
            shutil.copymode(out, partial)
        for fresh in remaining(resumed):
            write_jsonl(stream, fresh)
            stream.flush()
            done += fresh
    write_jsonl(out, done)
    partial.unlink()
    return done, resumed


def complete_groups(partial: Path) -> list[Group]:
    """The groups in the complete lines of a log or a partial log; the last group may lack trajectories.

    Raises:
        TrajectoryError: it is not a log.
    """
    try:
        lines = complete_lines(read_lines(partial, MAX_LINE), BEGINNING, "a log of this version")
        text = "".join(line for _, line in lines)
    except DataError as error:
        raise TrajectoryError(f"{partial}: cannot be read as a trajectory log: {error}") from error
    try:
        return read_groups(io.StringIO(text))
    except TrajectoryError as error:
        raise TrajectoryError(f"{partial}: {error}") from error
