"""Values of rows, checked: a field by its path, texts, numbers, and names short enough to be ids and keys."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

from creditflow.envs.errors import short_repr
from creditflow.train.adapters.logs.report import RowError

__all__ = ["MISSING", "at_path", "given_name", "key_of", "number", "own_name", "text"]

LONGEST_KEY: Final = 64  # characters of a state key
LONGEST_NAME: Final = 256  # characters of an id
MISSING: Final = object()


def at_path(row: Any, path: str) -> Any:
    """The value under a name, or under names and indices joined by dots; ``MISSING`` if there is none.

    >>> at_path({"info": {"states": ["a", "b"]}}, "info.states.1")
    'b'
    """
    if isinstance(row, Mapping) and path in row:
        return row[path]
    for part in path.split("."):
        if isinstance(row, Mapping) and part in row:
            row = row[part]
        elif isinstance(row, list) and part.isdecimal() and int(part) < len(row):
            row = row[int(part)]
        else:
            return MISSING
    return row


def text(row: Mapping[str, Any], name: str) -> str:
    """The text under a name.

    Raises:
        RowError: there is none.
    """
    value = row.get(name, MISSING)
    if not isinstance(value, str):
        found = "missing" if value is MISSING else short_repr(value)
        raise RowError(f"there is no text under {name!r}", f"{found}; keys: {short_repr(sorted(map(str, row)), 200)}")
    return value


def number(value: Any, name: str) -> float:
    """A finite number; true and false count as 1 and 0.

    Raises:
        RowError: another value.
    """
    if isinstance(value, int | float):
        try:
            found = float(value)
        except OverflowError:
            found = math.inf
        if math.isfinite(found):
            return found
    raise RowError(f"{name!r} is no finite number", "missing" if value is MISSING else short_repr(value))


def given_name(value: Any) -> str:
    """An id as the file gives it: a text of at most ``LONGEST_NAME`` characters or a whole number; anything else is hashed.

    >>> given_name("run 7/ä"), given_name(12), given_name(None)[:5]
    ('run 7/ä', '12', 'hash:')
    """
    if isinstance(value, str) and 0 < len(value) <= LONGEST_NAME:
        return value
    return str(value) if type(value) is int and abs(value) < 2**63 else key_of([value])


def own_name(value: Any) -> str:
    """The name under a format's own field; "" if there is none."""
    return given_name(value) if isinstance(value, str | int) and not isinstance(value, bool) and value != "" else ""


def key_of(value: Any) -> str:
    """A value as a key: a short printable text is its own, anything else is hashed; equal values and no others are equal.

    >>> key_of("room 3"), len(key_of("x" * 100)), key_of({"x": 1})[:5]
    ('room 3', 37, 'hash:')
    """
    if (
        isinstance(value, str)
        and 0 < len(value) <= LONGEST_KEY
        and value.isprintable()
        and not value.startswith("hash:")
    ):
        return value
    written = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return "hash:" + blake2b(written.encode(), digest_size=16).hexdigest()
