"""What an interrupted command leaves of a trajectory log: OUT.partial, whose last line may be torn."""

from __future__ import annotations

import io
from pathlib import Path

from creditflow.envs.errors import DataError, TrajectoryError
from creditflow.envs.reading.limits import MAX_LINE
from creditflow.envs.reading.streams import read_lines
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import read_groups

__all__ = ["partial_of", "whole_groups", "whole_lines"]

SUFFIX = ".partial"


def partial_of(out: Path) -> Path:
    """Where a log grows until it is whole."""
    return out.with_name(out.name + SUFFIX)


def whole_lines(left: Path) -> list[str]:
    """The lines of a log, or of what is left of one, that were written to their ends.

    Raises:
        TrajectoryError: it is no log.
    """
    try:
        return [line for _, line in read_lines(left, MAX_LINE) if line.endswith("\n")]
    except DataError as error:
        raise TrajectoryError(f"{left}: cannot be read as a trajectory log: {error}") from error


def whole_groups(left: Path) -> list[Group]:
    """The groups of a log, or of what is left of one; the last group may lack members.

    Raises:
        TrajectoryError: it is no log.
    """
    try:
        return read_groups(io.StringIO("".join(whole_lines(left))))
    except TrajectoryError as error:
        raise TrajectoryError(f"{left}: {error}") from error
