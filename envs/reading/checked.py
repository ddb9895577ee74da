"""Type checks of values in plain data: each function returns the value, or raises a ``DataError`` that names the field.

They serve readers of untrusted snapshots and task contents. ``where`` begins every message: the kind of data and the
field, as in "Sokoban snapshot: steps".
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from creditflow.envs.errors import DataError, short_repr
from creditflow.envs.reading.json_text import decode_json

__all__ = ["MAX_COUNT", "integer", "is_string_list", "items", "snapshot_fields", "text", "texts"]

MAX_COUNT: Final = 2**53 - 1  # largest number of steps, calls and the like; JSON readers represent it exactly


def integer(value: Any, where: str, low: int = 0, high: int = MAX_COUNT) -> int:
    """Check for an integer (not a boolean) from ``low`` to ``high``."""
    if type(value) is not int or not low <= value <= high:
        raise DataError(f"{where} must be an integer from {low} to {high}, got {short_repr(value)}")
    return value


def text(value: Any, where: str) -> str:
    """Check for a string."""
    if not isinstance(value, str):
        raise DataError(f"{where} must be a string, got {short_repr(value)}")
    return value


def items(value: Any, where: str, limit: int) -> Sequence[Any]:
    """Check for a list of at most ``limit`` items."""
    if not isinstance(value, list | tuple) or len(value) > limit:
        raise DataError(f"{where} must be a list of at most {limit} items, got {short_repr(value)}")
    return value


def texts(value: Any, where: str, limit: int) -> tuple[str, ...]:
    """Check for a list of at most ``limit`` strings; return a tuple."""
    return tuple(text(item, where) for item in items(value, where, limit))


def is_string_list(value: Any) -> bool:
    """Return whether the value is a list of strings."""
    return isinstance(value, list) and set(map(type, value)) <= {str}


def snapshot_fields(snapshot: Any, *, kind: str, form: str, fields: AbstractSet[str], limit: int) -> dict[str, Any]:
    """Parse the JSON text of a snapshot and check the names of its fields.

    Args:
        snapshot: argument of ``set_state``.
        kind: name in messages, such as "Sokoban snapshot".
        form: expected value of its field ``format``.
        fields: names of all fields, ``format`` included.
        limit: most characters of the text.

    Raises:
        DataError: not the text of such an object.
    """
    if not isinstance(snapshot, str) or len(snapshot) > limit:
        size = f"{len(snapshot):,} characters" if isinstance(snapshot, str) else short_repr(snapshot)
        raise DataError(
            f"a {kind} is the JSON text that get_state() returned, of at most {limit:,} characters, got {size}"
        )
    try:
        data = decode_json(snapshot)
    except (ValueError, RecursionError) as error:
        raise DataError(f"a {kind} must be JSON, got {short_repr(snapshot)}: {error!s:.80}") from error
    if not isinstance(data, dict) or data.get("format") != form or set(data) != fields:
        raise DataError(f"a {kind} has format {form!r} and the fields {sorted(fields)}, got {short_repr(snapshot)}")
    return data
