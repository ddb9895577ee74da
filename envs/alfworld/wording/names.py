"""Names in observations: "cabinet 3" for ``cabinet_bar__minus_01_…``.

Follows ALFWorld's demangling without shuffling: the word before the first ``_bar_`` (plus "basin" for basins), and a
number counted *down* along the sorted raw ids, so the first "cabinet" gets the highest number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

__all__ = ["human_names"]

_MARKS = (("_bar_", "|"), ("_minus_", "-"), ("_plus_", "+"), ("_dot_", "."), ("_comma_", ","))


def human_names(ids: Iterable[str]) -> dict[str, str]:
    """Return raw id -> name, for all ids of one game at once (names depend on one another).

    >>> human_names(["cup_bar_01", "cup_bar_02", "sink_bar_7_bar_sinkbasin"])
    {'cup_bar_01': 'cup 2', 'cup_bar_02': 'cup 1', 'sink_bar_7_bar_sinkbasin': 'sinkbasin 1'}
    """
    ordered = sorted(set(ids))
    remaining = Counter(_base(name) for name in ordered if "_bar_" in name)
    names: dict[str, str] = {}
    for name in ordered:
        if "_bar_" in name:
            base = _base(name)
            names[name] = f"{base} {remaining[base]}"
            remaining[base] -= 1
        else:  # the engine keeps the blank before the absent number
            names[name] = f"{_unmark(name)} "
    return names


def _base(name: str) -> str:
    return _unmark(name).split("|", 1)[0] + ("basin" if "basin" in name else "")


def _unmark(name: str) -> str:
    for mark, sign in _MARKS:
        name = name.replace(mark, sign)
    return name
