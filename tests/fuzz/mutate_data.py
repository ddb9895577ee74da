"""Structure-aware damage to JSON-like values: wrong types, extreme numbers, deep nests, repeated keys, hostile texts.

A *recipe* is JSON text in which marked strings stand for values that JSON cannot represent or that would be long to
store. ``thaw`` makes Python objects of it (sets, bytes, huge integers …); ``spell`` makes JSON text, deep nests and repeated
keys included.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, Final

import numpy as np

from fuzz.mutate_bytes import below, mutate_bytes, pick

__all__ = ["freeze", "mutate_json", "mutate_lines", "mutate_recipe", "spell", "thaw"]

Rng = np.random.Generator

WILD: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1, 2, 0.5, -0.0, 1e308, 2**31, 2**53, 2**63, 2**64, -(2**63) - 1, 10**400,
    math.nan, math.inf, -math.inf, "", " ", "x", "yes", "no", "0", "NaN", "\0", "\ud800", "\udfff\ud800", "\u2028", "a\nb",
    "é" * 40, "../../../etc/passwd", "/etc/passwd", "x" * 5000, [], {}, [[]], [None], [{}], {"": 0}, {"x": {"x": {}}},
    "@deep:60@", "@deep:5000@", "@wide:3000@", "@digits:5000@", "@set@", "@bytes@", "@tuple@", "@object@", "@complex@",
)  # fmt: skip
_MARK: Final = re.compile(r"@(\w+)(?::(\d+))?@")
_SPELLED: Final[dict[str, Callable[[int], str]]] = {
    "deep": lambda n: "[" * n + "]" * n,
    "wide": lambda n: "[" + "0," * n + "0]",
    "digits": lambda n: "9" * n,
    "twice": lambda _: '{"id":1,"id":2}',
}


def _deep(depth: int) -> list[Any]:
    nest: list[Any] = []
    for _ in range(depth):
        nest = [nest]
    return nest


_THAWED: Final[dict[str, Callable[[int], Any]]] = {
    "deep": _deep,
    "wide": lambda n: [0] * n,
    "digits": lambda n: 10**n,
    "set": lambda _: {1, "x"},
    "bytes": lambda _: b"\xff\0x",
    "tuple": lambda _: (1, [2]),
    "object": lambda _: object(),
    "complex": lambda _: 1j,
}


def freeze(value: Any) -> bytes:
    """Return the recipe of plain data."""
    return json.dumps(value).encode("ascii")


def thaw(recipe: bytes) -> Any:
    """Return the objects of a recipe."""

    def melt(value: Any) -> Any:
        if isinstance(value, str):
            found = _MARK.fullmatch(value)
            make = _THAWED.get(found[1]) if found else None
            return make(int(found[2] or 0)) if found and make else value
        if isinstance(value, list):
            return [melt(item) for item in value]
        return {key: melt(item) for key, item in value.items()} if isinstance(value, dict) else value

    return melt(json.loads(recipe))


def spell(recipe: bytes) -> bytes:
    """Return the JSON text of a recipe."""

    def written(found: re.Match[str]) -> str:
        make = _SPELLED.get(found[1])
        return make(int(found[2] or 0)) if make else found[0]

    return re.sub(r'"@(\w+)(?::(\d+))?@"', written, recipe.decode("ascii")).encode("ascii")


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values inside, the outermost included."""
    found = [path]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found += _places(item, (*path, key))
    return found


def _at(value: Any, path: Sequence[Any]) -> Any:
    for key in path:
        value = value[key]
    return value


def _change(rng: Rng, value: Any) -> Any:
    """Return plain data with one change at a random place; it is changed in place."""
    path = pick(rng, _places(value))
    if not path:
        return value if below(rng, 8) else deepcopy(pick(rng, WILD))
    holder, key = _at(value, path[:-1]), path[-1]
    what = below(rng, 8)
    if what <= 3:
        holder[key] = deepcopy(pick(rng, WILD))  # a later change must not alter ``WILD``
    elif what == 4:
        del holder[key]
    elif what == 5:
        holder[key] = deepcopy(_at(value, pick(rng, _places(value))))
    elif what == 6 and isinstance(holder, dict):
        name = pick(rng, ("", "x", "\ud800", "id", "__class__", key + "x", str(key).upper()))
        holder[name] = holder.pop(key)
    elif what == 6:
        holder.insert(key, deepcopy(holder[key]))
    else:
        inside = holder[key]
        holder[key] = pick(rng, ([inside], {"x": inside}, [inside, inside], str(inside)[:200]))
    return value


def mutate_recipe(rng: Rng, samples: Sequence[bytes]) -> bytes:
    """Return a recipe with one to four changes of structure."""
    value = json.loads(pick(rng, samples))
    for _ in range(1 + below(rng, 4)):
        value = _change(rng, value)
    return freeze(value)


_KEY: Final = re.compile(rb'"\w+":')


def _twice(rng: Rng, text: bytes) -> bytes:
    """Return the text with one of its keys repeated."""
    keys = list(_KEY.finditer(text[:100_000]))
    if not keys:
        return text
    key = pick(rng, keys)
    return text[: key.start()] + key[0] + pick(rng, (b"null,", b"0,", b'"x",')) + text[key.start() :]


def mutate_json(rng: Rng, samples: Sequence[bytes]) -> bytes:
    """Return a JSON text with damaged structure (three times in four) or damaged bytes."""
    if below(rng, 4) == 0:
        return mutate_bytes(rng, samples)
    text = spell(mutate_recipe(rng, samples))
    return _twice(rng, text) if below(rng, 6) == 0 else text


def mutate_lines(rng: Rng, samples: Sequence[bytes]) -> bytes:
    """Return JSON Lines of which one has a damaged structure, or with damaged bytes."""
    if below(rng, 3) == 0:
        return mutate_bytes(rng, samples)
    lines = [line for line in pick(rng, samples).split(b"\n") if line]
    at = below(rng, len(lines))
    lines[at] = mutate_json(rng, [lines[at]]) if below(rng, 4) else spell(mutate_recipe(rng, [lines[at]]))
    return b"\n".join(lines) + b"\n"
