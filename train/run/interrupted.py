"""The partial trajectory log of an interrupted command: OUT.partial, whose last line may be incomplete."""

from __future__ import annotations

import io
from pathlib import Path

from creditflow.envs.errors import DataError, TrajectoryError
from creditflow.envs.reading.limits import MAX_LINE
from creditflow.envs.reading.streams import read_lines
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import read_groups

__all__ = ["complete_groups", "complete_lines", "partial_of"]

SUFFIX = ".partial"


def partial_of(out: Path) -> Path:
    """Path of the partial log, which is written until the log is complete."""
    return out.with_name(out.name + SUFFIX)


def complete_lines(partial: Path) -> list[str]:
    """The complete lines of a log or a partial log.

    Raises:
        TrajectoryError: it is not a log.
    """
    try:
        return [line for _, line in read_lines(partial, MAX_LINE) if line.endswith("\n")]
    except DataError as error:
        raise TrajectoryError(f"{partial}: cannot be read as a trajectory log: {error}") from error


def complete_groups(partial: Path) -> list[Group]:
    """The groups in the complete lines of a log or a partial log; the last group may lack trajectories.

    Raises:
        TrajectoryError: it is not a log.
    """
    try:
        return read_groups(io.StringIO("".join(complete_lines(partial))))
    except TrajectoryError as error:
        raise TrajectoryError(f"{partial}: {error}") from error
