"""Values of plain data, checked: each function takes anything and returns its kind, or says what was expected and where.

For snapshots and task contents, which travel and are trusted in nothing. ``where`` begins every message: the kind of data and
the field, as in "Sokoban snapshot: steps".
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from creditflow.envs.errors import DataError, short_repr
from creditflow.envs.reading.json_text import decode_json

__all__ = ["MAX_COUNT", "integer", "is_texts", "items", "snapshot_fields", "text", "texts"]

MAX_COUNT: Final = 2**53 - 1  # largest number of steps, calls and the like; what every reader of JSON keeps exactly


def integer(value: Any, where: str, low: int = 0, high: int = MAX_COUNT) -> int:
    """An integer, and neither true nor false, from ``low`` to ``high``."""
    if type(value) is not int or not low <= value <= high:
        raise DataError(f"{where} must be an integer from {low} to {high}, got {short_repr(value)}")
    return value


def text(value: Any, where: str) -> str:
    """A text."""
    if not isinstance(value, str):
        raise DataError(f"{where} must be a text, got {short_repr(value)}")
    return value


def items(value: Any, where: str, most: int) -> Sequence[Any]:
    """A list of at most so many items."""
    if not isinstance(value, list | tuple) or len(value) > most:
        raise DataError(f"{where} must be a list of at most {most} items, got {short_repr(value)}")
    return value


def texts(value: Any, where: str, most: int) -> tuple[str, ...]:
    """A list of at most so many texts, as a tuple."""
    return tuple(text(item, where) for item in items(value, where, most))


def is_texts(value: Any) -> bool:
    """Whether this is a list of texts."""
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def snapshot_fields(snapshot: Any, *, kind: str, form: str, fields: AbstractSet[str], most: int) -> dict[str, Any]:
    """The fields of a snapshot's JSON text, not looked at yet.

    Args:
        snapshot: what ``set_state`` was given.
        kind: as messages name it, as in "Sokoban snapshot".
        form: what its field ``format`` holds.
        fields: all names, ``format`` included.
        most: characters of the text.

    Raises:
        DataError: not the text of such an object.
    """
    if not isinstance(snapshot, str) or len(snapshot) > most:
        size = f"{len(snapshot):,} characters" if isinstance(snapshot, str) else short_repr(snapshot)
        raise DataError(
            f"a {kind} is the JSON text that get_state() returned, of at most {most:,} characters, got {size}"
        )
    try:
        data = decode_json(snapshot)
    except (ValueError, RecursionError) as error:
        raise DataError(f"a {kind} must be JSON, got {short_repr(snapshot)}: {error!s:.80}") from error
    if not isinstance(data, dict) or data.get("format") != form or set(data) != fields:
        raise DataError(f"a {kind} has format {form!r} and the fields {sorted(fields)}, got {short_repr(snapshot)}")
    return data
