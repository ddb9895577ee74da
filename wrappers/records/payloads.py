"""Which payload belongs to which group of a log.

A task's id names the task, not all that a log says about it: two groups of one task can have met different documents.
So every group keeps the payload that its own lines carry. One without takes its task's, where the log knows one only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from creditflow.envs.errors import TrajectoryError, short_repr
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["Payloads"]

DOCUMENTS: Final = "documents"  # what a group met; all else describes the task
Payload = Mapping[str, Any]


class Payloads:
    """Collects payloads line by line, and says which is a group's."""

    def __init__(self) -> None:
        self._by_group: dict[tuple[str, int], tuple[Payload, str]] = {}
        self._by_task: dict[str, list[tuple[Payload, str]]] = {}

    def add(self, trajectory: Trajectory, payload: Payload, place: str) -> None:
        """Remember what a line carries.

        Raises:
            TrajectoryError: its group has another payload already.
        """
        known = self._by_group.setdefault((trajectory.group_id, trajectory.trial), (payload, place))
        if known[0] != payload:
            raise TrajectoryError(
                f"{place}: group {trajectory.group_id!r} has another task payload already ({known[1]}); one line of a "
                "group carries its task"
            )
        of_task = self._by_task.setdefault(trajectory.task_id, [])
        if len(of_task) < 2 and all(payload != other for other, _ in of_task):  # two are enough to disagree
            of_task.append((payload, place))

    def of(self, members: Iterable[Trajectory]) -> Payload:
        """The payload of trajectories that form one group; {} if none of their lines, nor of their task's, carries one.

        Raises:
            TrajectoryError: there are several and they contradict each other.
        """
        found: dict[int, tuple[Payload, str]] = {}
        for member in members:
            own = self._by_group.get((member.group_id, member.trial))
            candidates = self._by_task.get(member.task_id, []) if own is None else [own]
            if len(candidates) > 1:
                raise TrajectoryError(
                    f"group {member.group_id!r} carries no task payload, and its task {member.task_id!r} has different "
                    f"ones ({candidates[0][1]}; {candidates[1][1]}); write the payload into the group's first line"
                )
            found.update((id(payload), (payload, place)) for payload, place in candidates)
        return _joined(list(found.values()))


def _joined(parts: list[tuple[Payload, str]]) -> Payload:
    """One payload of several that agree, with the documents of all."""
    if len(parts) < 2:
        return parts[0][0] if parts else {}
    (first, place), *rest = parts
    documents = dict(_documents(first, place))
    for other, other_place in rest:
        if {**first, DOCUMENTS: None} != {**other, DOCUMENTS: None}:
            raise TrajectoryError(f"one task has different payloads ({place}; {other_place})")
        for name, document in _documents(other, other_place).items():
            if documents.setdefault(name, document) != document:
                raise TrajectoryError(
                    f"the document {short_repr(name, 80)} has different texts ({place}; {other_place})"
                )
    return {**first, DOCUMENTS: documents} if documents else first


def _documents(payload: Payload, place: str) -> Mapping[str, Any]:
    documents = payload.get(DOCUMENTS, {})
    if not isinstance(documents, Mapping):
        raise TrajectoryError(f"{place}: {DOCUMENTS} must be an object, texts by id, got {type(documents).__name__}")
    return documents
