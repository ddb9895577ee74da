"""What an interrupted command leaves of a trajectory log: OUT.partial, whose last line may be torn."""

from __future__ import annotations

import io
import zlib
from pathlib import Path

from creditflow.envs.errors import TrajectoryError
from creditflow.wrappers.groups import Group
from creditflow.wrappers.jsonl import read_groups
from creditflow.wrappers.jsonl_source import open_text

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
        with open_text(left) as (stream, _):
            return [line for line in stream if line.endswith("\n")]
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
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
