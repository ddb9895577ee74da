"""Plain data: dicts with string keys, lists, strings, finite numbers, booleans and None."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from creditflow.envs.errors import DataError, short_repr
from creditflow.envs.reading.limits import Limits

__all__ = ["check_plain", "nan_as_none"]

_LEAVES: Final = frozenset({str, bool, type(None)})


def check_plain(data: Any, limits: Limits, where: str) -> None:
    """Check that data is plain and within limits.

    The check goes level by level without recursion, as data may be nested deeper than Python's stack.

    Raises:
        DataError: another type, a non-finite or too long number, too many levels.
    """
    level, bound = [data], 10**limits.digits
    for _ in range(limits.depth + 1):
        below: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is dict:
                if not all(type(key) is str for key in item):
                    key = next(key for key in item if type(key) is not str)
                    raise DataError(f"{where}: expected strings as keys, got {short_repr(key)}")
                below.extend(item.values())
            elif kind is list:
                below.extend(item)
            elif kind is float:
                if not math.isfinite(item):
                    raise DataError(f"{where}: contains a non-finite number ({item})")
            elif kind is int:
                if not -bound < item < bound:
                    raise DataError(f"{where}: contains an integer of more than {limits.digits} digits")
            elif kind not in _LEAVES:
                raise DataError(
                    f"{where}: expected lists, objects, strings, numbers, true, false or null, got {kind.__name__}"
                )
        if not below:
            return
        level = below
    raise DataError(f"{where}: nested deeper than {limits.depth} levels")


def nan_as_none(data: Any) -> Any:
    """A copy in which nan, which JSON lacks, is None; mappings become dicts, tuples become lists."""
    if isinstance(data, Mapping):
        return {key: nan_as_none(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [nan_as_none(value) for value in data]
    return None if isinstance(data, float) and math.isnan(data) else data
