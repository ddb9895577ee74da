"""Assignment of task payloads to the groups of a log.

Groups of one task may have different payloads, because they retrieved different documents. So every group keeps the
payload of its own lines. A group without one takes that of its task if the log has exactly one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from creditflow.envs.errors import TrajectoryError, short_repr
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["Payloads"]

DOCUMENTS: Final = "documents"  # retrieved by a group; all other fields describe the task
Payload = Mapping[str, Any]


class Payloads:
    """The payloads of a log, collected line by line and assigned to groups."""

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
