"""What is wrong about the types in a group that schemes are about to read: logs come from anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from creditflow.envs.errors import short_repr
from creditflow.wrappers.records.group import Group

__all__ = ["malformed_turns"]


# fields of a turn that hold several texts
_MANY: Final = ("queries", "entities", "doc_ids")


def malformed_turns(group: Group, fields: Sequence[str]) -> str:
    """Which text, or tuple of texts, of a turn is none; "" if all are.

    Args:
        group: of any source.
        fields: names of the turns' fields.
    """
    for member in group.trajectories:
        for t, turn in enumerate(member.turns):
            for name in fields:
                value = getattr(turn, name)
                many = name in _MANY
                if _texts(value) if many and isinstance(value, tuple | list) else isinstance(value, str) and not many:
                    continue
                kind = "texts" if many else "a text"
                return f"trajectory {member.trajectory_id!r}, turn {t}: {name} must be {kind}, got {short_repr(value)}"
    return ""


def _texts(values: Sequence[Any]) -> bool:
    return all(isinstance(value, str) for value in values)
