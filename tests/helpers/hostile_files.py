"""Damaged files: bytes flipped, cut, doubled; JSON with other values, repeated keys, deep nesting and long numbers."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from creditflow.envs.errors import CreditflowError

DEEP: Any = "DEEP"  # stands for nesting that json.dumps could not write
HOSTILE: list[Any] = [
    None, True, 0, -1, 1.5, 2**31, 2**63, 2**64, 10**90, 10**120, float("nan"), float("inf"), "", "x", "\ud800", "\0", "1e999",
    [], {}, [[]], [{}], {"": None}, ["x", 1], {"a": {"b": []}}, DEEP,
]  # fmt: skip


def worse_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """Flip, cut out, double or insert a few bytes, or cut off the end."""
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 5))):
        a, b = sorted(int(x) for x in rng.integers(0, len(out) + 1, 2))
        b = min(b, a + 1 + int(rng.integers(0, 40)))
        what = int(rng.integers(0, 6))
        if what == 0 and out:
            out[a % len(out)] ^= 1 << int(rng.integers(0, 8))
        elif what == 1:
            del out[a:b]
        elif what == 2:
            out[a:a] = out[a:b]
        elif what == 3:
            out[a:b] = rng.bytes(b - a)
        elif what == 4:
            out[a:b] = bytes(b - a)
        else:
            del out[a:]
    return bytes(out)


def worse_json(text: str, rng: np.random.Generator) -> str:
    """Replace, remove or double one value of a JSON text, or write one key twice."""
    value = json.loads(text)
    places: list[tuple[Any, Any]] = []
    level = [value]
    for one in level:
        if isinstance(one, dict | list):
            keys = list(one) if isinstance(one, dict) else range(len(one))
            places += [(one, key) for key in keys]
            level += [one[key] for key in keys]
    if not places:
        return "[" * 10_000
    holder, key = places[int(rng.integers(0, len(places)))]
    what = int(rng.integers(0, 12))
    if what == 0:
        del holder[key]
    elif what == 1 and isinstance(holder, dict):
        holder["\1again"] = holder[key]
        return json.dumps(value).replace('"\\u0001again"', json.dumps(key), 1)
    elif what == 2 and isinstance(holder, dict):
        holder["a key that nobody knows"] = 1
    elif what == 3:
        other, name = places[int(rng.integers(0, len(places)))]
        holder[key] = json.loads(json.dumps(other[name]))
    else:
        holder[key] = HOSTILE[int(rng.integers(0, len(HOSTILE)))]
    return json.dumps(value).replace(f'"{DEEP}"', "[" * 2_000 + "]" * 2_000)


def worse_file(data: bytes, rng: np.random.Generator) -> bytes:
    """``worse_json`` on a document or on one of its lines, ``worse_bytes`` on all else; inside a gzip archive as well."""
    if data[:2] == b"\x1f\x8b" and rng.random() < 0.5:
        return gzip.compress(worse_file(gzip.decompress(data), rng))
    if rng.random() < 0.3:
        return worse_bytes(data, rng)
    try:
        return worse_json(data.decode(), rng).encode("utf-8", "replace")
    except ValueError:
        pass
    try:
        lines = data.decode().split("\n")
        place = int(rng.integers(0, len(lines)))
        lines[place] = worse_json(lines[place], rng)
        return "\n".join(lines).encode("utf-8", "replace")
    except ValueError:
        return worse_bytes(data, rng)


def refusals(path: Path, good: bytes, read: Callable[[], object], tries: int, seed: int) -> int:
    """The number of ``tries`` damaged versions of a file that are refused; errors that are not ours are raised."""
    refused = 0
    for number in range(tries):
        path.write_bytes(worse_file(good, np.random.default_rng([seed, number])))
        try:
            read()
        except CreditflowError as error:
            assert str(error).strip(), "an error without a message"
            assert len(str(error)) < 3_000, "an error that quotes the file"
            refused += 1
        except Exception as error:
            error.add_note(f"seed {seed}, number {number}: {path.read_bytes()[:300]!r}")
            raise
    return refused


def damaged_in_turn(folder: Path, names: Iterable[str], harm: str) -> Iterator[Path]:
    """Yield each file that is not empty while it is damaged (``flip``, ``cut``, ``empty`` or ``gone``); restore it afterwards."""
    for name in names:
        file = folder / name
        whole = file.read_bytes()
        if not whole:
            continue
        data = bytearray(whole)
        data[len(data) // 2] ^= 0x40
        file.write_bytes(data if harm == "flip" else whole[:-3] if harm == "cut" else b"")
        if harm == "gone":
            file.unlink()
        yield file
        file.write_bytes(whole)
