"""Trajectory logs: JSON Lines, one trajectory per line, plain or gzip, safe for untrusted input.

Format 1. A line is an object with ``format_version`` and the fields of ``Trajectory``; ``turns`` is a list of objects
with the fields of ``Turn``; fields at their default may be missing; the first line of a group may have ``task``, the
payload. Text is escaped to ASCII, so lone surrogates survive; NaN, infinities and repeated keys are rejected. Nothing is
executed, every value is type-checked, and length, depth and gzip ratio are limited (``envs/reading/limits.py``).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Literal, TypeVar

from creditflow.envs.errors import DataError, TrajectoryError, short_repr, unknown_name_error
from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.reading import streams
from creditflow.envs.reading.limits import MAX_LINE
from creditflow.envs.reading.streams import numbered_lines
from creditflow.wrappers.records.group import Group, collect_trajectories, group_trajectories
from creditflow.wrappers.records.jsonl_lines import FORMAT_VERSION, LONG_TEXTS, decode_line, encode_line
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = [
    "FORMAT_VERSION",
    "Log",
    "Payloads",
    "Record",
    "open_text",
    "read_groups",
    "read_jsonl",
    "read_log",
    "read_records",
    "write_jsonl",
]

ItemT = TypeVar("ItemT")
Record = tuple[Trajectory, Mapping[str, Any] | None, str]  # with the payload of its line, and where that stands


@dataclass(frozen=True)
class Log:
    """The groups of a log, and the order of its lines, in which those of groups may alternate.

    Attributes:
        groups: in order of first appearance.
        order: for each line the index of its group, whose members stand in the order of their lines.
    """

    groups: tuple[Group, ...]
    order: tuple[int, ...]

    @staticmethod
    def of(groups: Iterable[Group]) -> Log:
        """A log that contains one group after the other."""
        listed = tuple(groups)
        return Log(listed, tuple(number for number, group in enumerate(listed) for _ in group.trajectories))

    def in_order(self, of_members: Iterable[Iterable[ItemT]]) -> Iterator[ItemT]:
        """What belongs to the members of each group, in the order of the lines."""
        items = [iter(members) for members in of_members]
        return (next(items[number]) for number in self.order)

    def records(self) -> Iterator[tuple[Trajectory, Mapping[str, Any] | None]]:
        """The trajectories in the order of the lines; the first one of a group with its payload, if there is one."""
        payloads = ([group.task or None, *[None] * (len(group) - 1)] for group in self.groups)
        members = (
            zip(group.trajectories, tasks, strict=True) for group, tasks in zip(self.groups, payloads, strict=True)
        )
        return self.in_order(members)


def _records(source: str | os.PathLike[str] | IO[str], skip: Collection[str]) -> Iterator[Record]:
    """Yield trajectories with their payloads and positions ("file: line n")."""
    try:
        with open_text(source) as (stream, name):
            for where, line in numbered_lines(stream, name, MAX_LINE):
                if line.isspace():
                    continue
                try:
                    trajectory, task = decode_line(line, skip)
                except TrajectoryError as error:  # the last line may lack its newline, but must be complete
                    hint = "" if line.endswith("\n") else " (the file ends here: is it truncated?)"
                    raise TrajectoryError(f"{where}: {error}{hint}") from None
                yield trajectory, task, where
    except TrajectoryError:
        raise
    except DataError as error:
        raise TrajectoryError(str(error)) from error


def read_jsonl(
    source: str | os.PathLike[str] | IO[str], *, fields: Collection[str] | None = None
) -> Iterator[Trajectory]:
    """Read the trajectories of a log, one by one.

    Args:
        source: a path (gzip if it ends in ``.gz``) or an open text stream.
        fields: long texts to keep, out of "observation", "thought" and "response"; None keeps all. Keys are interned,
            so without texts a million turns take a few hundred megabytes.

    Raises:
        TrajectoryError: a malformed line; the message names the file and the line.
    """
    for trajectory, _, _ in _records(source, _skipped(fields)):
        yield trajectory


def read_groups(
    source: str | os.PathLike[str] | IO[str],
    *,
    by: Literal["group", "task"] = "group",
    fields: Collection[str] | None = None,
) -> list[Group]:
    """Read the groups of a log, in order of first appearance.

    Args:
        source, fields: as for ``read_jsonl``.
        by: "group" (``group_id``) or "task" (all rollouts of a task form one group).

    Raises:
        TrajectoryError: a malformed line or an inconsistent group; the message names the file and the line.
    """
    return list(read_log(source, by=by, fields=fields).groups)


def read_log(
    source: str | os.PathLike[str] | IO[str],
    *,
    by: Literal["group", "task"] = "group",
    fields: Collection[str] | None = None,
) -> Log:
    """Read the groups of a log, and the order of its lines; as ``read_groups``."""
    return read_records(_records(source, _skipped(fields)), by)


def read_records(records: Iterable[Record], by: Literal["group", "task"] = "group") -> Log:
    """Collect the records of a log of any format into groups, in order of first appearance.

    Args:
        records: each trajectory, the task payload of its line or None, and its position for messages.
        by: as for ``read_groups``.

    Raises:
        TrajectoryError: a trajectory occurs twice, payloads contradict each other, or a group is inconsistent.
    """
    payloads = Payloads()
    trajectories = []
    positions: dict[tuple[str, int, str], str] = {}
    for trajectory, task, position in records:
        trajectories.append(trajectory)
        if task is not None:
            payloads.add(trajectory, task, position)
        name = (trajectory.group_id, trajectory.trial, trajectory.trajectory_id)
        if name in positions:
            raise TrajectoryError(
                f"{position}: group {name[0]!r} already has a trajectory {name[2]!r} ({positions[name]}); "
                "was the log appended to itself?"
            )
        positions[name] = position
    groups = _grouped(trajectories, by, payloads, positions)
    numbers: dict[tuple[str, int], int] = {}
    order = [
        numbers.setdefault(
            (trajectory.task_id if by == "task" else trajectory.group_id, trajectory.trial), len(numbers)
        )
        for trajectory in trajectories
    ]
    return Log(tuple(groups), tuple(order))


def _grouped(
    trajectories: list[Trajectory],
    by: Literal["group", "task"],
    payloads: Payloads,
    positions: Mapping[tuple[str, int, str], str],
) -> list[Group]:
    """Call ``group_trajectories``; errors name the position in the log."""
    first: dict[str, str] = {}
    for (group_id, _, _), position in positions.items():
        first.setdefault(group_id, position)
    groups = []
    for members in collect_trajectories(trajectories, by):
        try:
            groups += group_trajectories(members, by, {members[0].task_id: payloads.of(members)})
        except TrajectoryError as error:
            raise TrajectoryError(f"{first[members[0].group_id]} and later: {error}") from None
    return groups


def _skipped(keep: Collection[str] | None) -> frozenset[str]:
    if keep is None:
        return frozenset()
    for name in keep:
        if name not in LONG_TEXTS:
            raise unknown_name_error("text field", name, LONG_TEXTS)
    return LONG_TEXTS - set(keep)


def write_jsonl(target: str | os.PathLike[str] | IO[str], items: Iterable[Trajectory | Group] | Log) -> int:
    """Write trajectories, groups or a whole log, one trajectory per line; return the number of trajectories.

    A file appears only after everything has been written. The first line of a group contains its task payload.

    Raises:
        TrajectoryError: JSON cannot represent a value.
    """
    if not hasattr(target, "write"):
        with atomic_writer(target) as stream:
            return write_jsonl(stream, items)
    count = 0
    for trajectory, task in _lines(items):
        target.write(encode_line(trajectory, task) + "\n")
        count += 1
    return count


def _lines(items: Iterable[Trajectory | Group] | Log) -> Iterator[tuple[Trajectory, Mapping[str, Any] | None]]:
    if isinstance(items, Log):
        yield from items.records()
        return
    for item in items:
        if isinstance(item, Group):
            yield from Log.of([item]).records()
        else:
            yield item, None


DOCUMENTS: Final = "documents"  # retrieved by a group; all other fields describe the task
Payload = Mapping[str, Any]


class Payloads:
    """The task payloads of a log, collected line by line and assigned to groups.

    Groups of one task may have different payloads, because they retrieved different documents. So every group keeps the
    payload of its lines. A group without one gets that of its task if the log has exactly one.
    """

    def __init__(self) -> None:
        self._by_group: dict[tuple[str, int], tuple[Payload, str]] = {}
        self._by_task: dict[str, list[tuple[Payload, str]]] = {}

    def add(self, trajectory: Trajectory, payload: Payload, position: str) -> None:
        """Add the payload of a line.

        Raises:
            TrajectoryError: the group already has another payload.
        """
        first = self._by_group.setdefault((trajectory.group_id, trajectory.trial), (payload, position))
        if first[0] != payload:
            raise TrajectoryError(
                f"{position}: group {trajectory.group_id!r} already has another task payload ({first[1]}); one line of a "
                "group contains its task"
            )
        of_task = self._by_task.setdefault(trajectory.task_id, [])
        if len(of_task) < 2 and all(
            payload != earlier for earlier, _ in of_task
        ):  # two are enough to detect a conflict
            of_task.append((payload, position))

    def of(self, members: Iterable[Trajectory]) -> Payload:
        """Return the payload of the trajectories of a group; {} if neither their lines nor those of their task have one.

        Raises:
            TrajectoryError: payloads contradict each other.
        """
        by_id: dict[int, tuple[Payload, str]] = {}
        for member in members:
            of_group = self._by_group.get((member.group_id, member.trial))
            candidates = self._by_task.get(member.task_id, []) if of_group is None else [of_group]
            if len(candidates) > 1:
                raise TrajectoryError(
                    f"group {member.group_id!r} has no task payload, and its task {member.task_id!r} has different "
                    f"ones ({candidates[0][1]}; {candidates[1][1]}); write the payload into the group's first line"
                )
            by_id.update((id(payload), (payload, position)) for payload, position in candidates)
        return _joined(list(by_id.values()))


def _joined(parts: list[tuple[Payload, str]]) -> Payload:
    """Merge payloads that agree into one with the documents of all."""
    if len(parts) < 2:
        return parts[0][0] if parts else {}
    (first, position), *rest = parts
    documents = dict(_documents(first, position))
    for payload, its_position in rest:
        if {**first, DOCUMENTS: None} != {**payload, DOCUMENTS: None}:
            raise TrajectoryError(f"one task has different payloads ({position}; {its_position})")
        for name, document in _documents(payload, its_position).items():
            if documents.setdefault(name, document) != document:
                raise TrajectoryError(
                    f"the document {short_repr(name, 80)} has different texts ({position}; {its_position})"
                )
    return {**first, DOCUMENTS: documents} if documents else first


def _documents(payload: Payload, position: str) -> Mapping[str, Any]:
    documents = payload.get(DOCUMENTS, {})
    if not isinstance(documents, Mapping):
        raise TrajectoryError(
            f"{position}: {DOCUMENTS} must be an object that maps ids to documents, got {type(documents).__name__}"
        )
    return documents


@contextlib.contextmanager
def open_text(source: str | os.PathLike[str] | IO[str]) -> Iterator[tuple[IO[str], str]]:
    """Open a text stream; also return its name for error messages. A stream that was passed in is not closed.

    Raises:
        TrajectoryError: the file does not exist or is a folder.
        DataError: the file cannot be read; while reading: a damaged archive or a decompression bomb.
    """
    if not isinstance(source, str | os.PathLike):
        yield source, getattr(source, "name", "<stream>")
        return
    path = Path(source)
    if path.is_dir():
        raise TrajectoryError(f"{path} is a folder; expected a .jsonl or .jsonl.gz file")
    if not path.exists():
        raise TrajectoryError(f"{path}: no such file")
    with streams.open_text(path) as stream:
        yield stream, str(path)
