"""Trajectory logs: JSON Lines, one trajectory a line, plain or gzip, safe to read from strangers.

Format 1. A line is an object with ``format_version`` and the fields of ``Trajectory``; ``turns`` is a list of objects
with the fields of ``Turn``; fields at their default may be missing; the first line of a group may carry ``task``, the
payload. Text is escaped to ASCII, so lone surrogates survive; NaN and infinities are refused. Nothing is executed,
every value is type-checked, and length, depth and gzip ratio are capped.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import IO, Any, Literal

from creditflow.envs.atomic import atomic_writer
from creditflow.envs.errors import TrajectoryError, unknown_name
from creditflow.wrappers.groups import Group, bucket_trajectories, group_trajectories
from creditflow.wrappers.jsonl_lines import FORMAT_VERSION, LONG_TEXTS, decode_line, encode_line
from creditflow.wrappers.jsonl_source import open_text
from creditflow.wrappers.records import Trajectory

__all__ = ["FORMAT_VERSION", "read_groups", "read_jsonl", "write_jsonl"]

MAX_LINE = 256 * 2**20  # characters; a long search episode with its pages is about 1 MB


def _records(
    source: str | os.PathLike[str] | IO[str], skip: Collection[str]
) -> Iterator[tuple[Trajectory, Mapping[str, Any] | None, str]]:
    """Trajectories, the payloads beside them, and where they stand: "file: line n"."""
    with open_text(source) as (stream, name):
        number = 0
        try:
            while True:
                line = stream.readline(MAX_LINE + 1)
                if not line:
                    return
                number += 1
                if len(line) > MAX_LINE:
                    raise TrajectoryError(f"line longer than {MAX_LINE} characters")
                if line.isspace():
                    continue
                if not line.endswith("\n"):
                    try:  # the last line may lack its newline, but must be whole
                        decoded = decode_line(line, skip)
                    except TrajectoryError as error:
                        raise TrajectoryError(f"{error} (the file ends here: was it cut short?)") from None
                else:
                    decoded = decode_line(line, skip)
                yield *decoded, f"{name}: line {number}"
        except TrajectoryError as error:
            raise TrajectoryError(f"{name}: line {number}: {error}") from None
        except (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise TrajectoryError(f"{name}: after line {number}: not UTF-8 text or damaged gzip: {error}") from None


def read_jsonl(
    source: str | os.PathLike[str] | IO[str], *, fields: Collection[str] | None = None
) -> Iterator[Trajectory]:
    """The trajectories of a log, one by one.

    Args:
        source: a path (gzip if it ends in ``.gz``) or an open text stream.
        fields: which long texts to keep, of "observation", "thought", "response"; None keeps all. Keys are interned,
            so without texts a million turns take a few hundred megabytes.

    Raises:
        TrajectoryError: naming the file and the line.
    """
    for trajectory, _, _ in _records(source, _skipped(fields)):
        yield trajectory


def read_groups(
    source: str | os.PathLike[str] | IO[str],
    *,
    by: Literal["group", "task"] = "group",
    fields: Collection[str] | None = None,
) -> list[Group]:
    """The groups of a log, in order of first appearance.

    Args:
        source, fields: as for ``read_jsonl``.
        by: "group" (``group_id``) or "task" (all rollouts of one task together).

    Raises:
        TrajectoryError: naming the file and the line, or the group that does not fit together.
    """
    tasks: dict[str, Mapping[str, Any]] = {}
    trajectories = []
    places: dict[tuple[str, int, str], str] = {}
    for trajectory, task, place in _records(source, _skipped(fields)):
        trajectories.append(trajectory)
        if task is not None:
            tasks[trajectory.task_id] = task
        name = (trajectory.group_id, trajectory.trial, trajectory.trajectory_id)
        if name in places:
            raise TrajectoryError(
                f"{place}: group {name[0]!r} has a trajectory {name[2]!r} already ({places[name]}); "
                "was a log appended to itself?"
            )
        places[name] = place
    return _grouped(trajectories, by, tasks, places)


def _grouped(
    trajectories: list[Trajectory],
    by: Literal["group", "task"],
    tasks: Mapping[str, Mapping[str, Any]],
    places: Mapping[tuple[str, int, str], str],
) -> list[Group]:
    """``group_trajectories``, whose errors also say where the trouble stands."""
    first: dict[str, str] = {}
    for (group_id, _, _), place in places.items():
        first.setdefault(group_id, place)
    groups = []
    for members in bucket_trajectories(trajectories, by):
        try:
            groups += group_trajectories(members, by, tasks)
        except TrajectoryError as error:
            raise TrajectoryError(f"{first[members[0].group_id]} and after: {error}") from None
    return groups


def _skipped(keep: Collection[str] | None) -> frozenset[str]:
    if keep is None:
        return frozenset()
    for name in keep:
        if name not in LONG_TEXTS:
            raise unknown_name("text field", name, LONG_TEXTS)
    return LONG_TEXTS - set(keep)


def write_jsonl(target: str | os.PathLike[str] | IO[str], items: Iterable[Trajectory | Group]) -> int:
    """Write trajectories or whole groups, one trajectory a line; returns how many.

    A path appears only once everything is written. Groups also write their task payload, on their first line.

    Raises:
        TrajectoryError: a value that JSON cannot hold.
    """
    if not hasattr(target, "write"):
        with atomic_writer(target) as stream:
            return write_jsonl(stream, items)
    count = 0
    for item in items:
        members = item.trajectories if isinstance(item, Group) else (item,)
        task = item.task if isinstance(item, Group) else None
        for trajectory in members:
            target.write(encode_line(trajectory, task) + "\n")
            task = None
            count += 1
    return count
