"""The size of a log and its success rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from creditflow.wrappers.records.group import Group

__all__ = ["LogSize"]


class LogSize(NamedTuple):
    """The size of a log and its success rate.

    Attributes:
        groups, trajectories, turns: numbers of each.
        success: fraction of the trajectories that succeeded; nan if there are none.
    """

    groups: int
    trajectories: int
    turns: int
    success: float

    @classmethod
    def of(cls, groups: Sequence[Group]) -> LogSize:
        """The size of a log with these groups."""
        members = [member for group in groups for member in group.trajectories]
        success = sum(member.success for member in members) / len(members) if members else float("nan")
        return cls(len(groups), len(members), sum(len(member.turns) for member in members), success)
