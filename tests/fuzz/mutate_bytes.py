"""Damage to bytes and lines, as disks, networks, editors and attackers cause it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import numpy as np

__all__ = ["below", "mutate_bytes", "pick"]

Rng = np.random.Generator
T = TypeVar("T")
MOST: Final = 1 << 20  # bytes of a mutated case; traps may be larger

TOKENS: Final = tuple(
    text.encode("utf-8", "surrogatepass")
    for text in (
        "NaN", "Infinity", "-1", "1e999", "-0", "9" * 400, "9" * 5000, "9223372036854775808", "null", "true", "[]", "{}",
        '"\\ud800"', '"\\u0000"', "\0", "\ufeff", "\r\n", "\u2028", "é", "\ud800", "日本", '"', "\\", "[" * 300, "(" * 300,
        "{" * 300, "<" * 50, "\n", "\n\n", "\t", " " * 300, "%s%n", "../../x", "#" * 40, "a" * 5000, "1_0", "0x10", "١",
    )
)  # fmt: skip
_NUMBER: Final = re.compile(rb"-?\d+(?:\.\d+)?")


def below(rng: Rng, n: int) -> int:
    """Return a uniform index below ``n``."""
    return int(rng.integers(n))


def pick(rng: Rng, options: Sequence[T]) -> T:
    """Return one of the options, uniformly."""
    return options[below(rng, len(options))]


def _slice(rng: Rng, data: bytes) -> tuple[int, int]:
    start = below(rng, len(data) + 1)
    return start, min(len(data), start + 1 + below(rng, pick(rng, (4, 64, 4096))))


def _flip(rng: Rng, data: bytes, _: bytes) -> bytes:
    at = below(rng, len(data))
    return data[:at] + bytes([data[at] ^ 1 << below(rng, 8)]) + data[at + 1 :]


def _cut(rng: Rng, data: bytes, _: bytes) -> bytes:
    return data[: below(rng, len(data))]


def _remove(rng: Rng, data: bytes, _: bytes) -> bytes:
    start, stop = _slice(rng, data)
    return data[:start] + data[stop:]


def _repeat(rng: Rng, data: bytes, _: bytes) -> bytes:
    start, stop = _slice(rng, data)
    return data[:stop] + data[start:stop] * pick(rng, (1, 2, 50)) + data[stop:]


def _insert(rng: Rng, data: bytes, _: bytes) -> bytes:
    at = below(rng, len(data) + 1)
    new = pick(rng, TOKENS) if below(rng, 2) else rng.bytes(1 + below(rng, 8))
    return data[:at] + new + data[at:]


def _splice(rng: Rng, data: bytes, other: bytes) -> bytes:
    return data[: below(rng, len(data))] + other[below(rng, len(other) + 1) :]


def _number(rng: Rng, data: bytes, _: bytes) -> bytes:
    places = [m.span() for m in _NUMBER.finditer(data[:100_000])]
    if not places:
        return _flip(rng, data, b"")
    start, stop = pick(rng, places)
    return data[:start] + pick(rng, TOKENS) + data[stop:]


def _lines(rng: Rng, data: bytes, other: bytes) -> bytes:
    """Delete, repeat or swap lines, or insert one of another sample."""
    lines = data.splitlines(keepends=True)
    at, to = below(rng, len(lines)), below(rng, len(lines))
    what = below(rng, 4)
    if what == 0:
        del lines[at]
    elif what == 1:
        lines.insert(to, lines[at])
    elif what == 2:
        lines[at], lines[to] = lines[to], lines[at]
    else:
        lines.insert(at, pick(rng, other.splitlines(keepends=True) or [b"\n"]))
    return b"".join(lines)


_DAMAGE: Final[tuple[Callable[[Rng, bytes, bytes], bytes], ...]] = (
    _flip, _flip, _cut, _remove, _repeat, _insert, _splice, _number, _number, _lines,
)  # fmt: skip


def mutate_bytes(rng: Rng, samples: Sequence[bytes]) -> bytes:
    """Return a sample with one to four mutations."""
    data, other = pick(rng, samples), pick(rng, samples)
    for _ in range(1 + below(rng, 4)):
        data = pick(rng, _DAMAGE)(rng, data, other)[:MOST] if data else pick(rng, TOKENS)
    return data
