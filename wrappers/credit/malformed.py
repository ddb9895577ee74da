"""Type checks of the fields that a scheme reads: logs may come from other programs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, Final

from creditflow.envs.errors import short_repr
from creditflow.wrappers.records.group import Group

__all__ = ["malformed_turns"]


# fields of a turn that contain tuples of strings
_TUPLES: Final = ("queries", "entities", "doc_ids")


def malformed_turns(group: Group, fields: Sequence[str]) -> str:
    """Describe the first field of a turn that is not a string (or tuple of strings), or return "".

    Args:
        group: group from any source.
        fields: names of the fields of ``Turn`` to check.
    """
    if all(_well_formed(list(map(attrgetter(name), group.turns)), name in _TUPLES) for name in fields):
        return ""
    for member in group.trajectories:
        for t, turn in enumerate(member.turns):
            for name in fields:
                value = getattr(turn, name)
                is_tuple = name in _TUPLES
                if (
                    _strings(value)
                    if is_tuple and isinstance(value, tuple | list)
                    else isinstance(value, str) and not is_tuple
                ):
                    continue
                kind = "strings" if is_tuple else "a string"
                return f"trajectory {member.trajectory_id!r}, turn {t}: {name} must be {kind}, got {short_repr(value)}"
    return ""


def _well_formed(values: Sequence[Any], are_tuples: bool) -> bool:
    """Whether all values are exactly of the right types: a fast test, which subclasses do not pass."""
    if not are_tuples:
        return set(map(type, values)) <= {str}
    return set(map(type, values)) <= {tuple, list} and set(map(type, chain.from_iterable(values))) <= {str}


def _strings(values: Sequence[Any]) -> bool:
    return all(isinstance(value, str) for value in values)
