"""Untrusted JSON: ``parse_json`` for documents, ``decode_json`` for readers that check every value themselves.

The decoder is the standard library's. msgspec, orjson and pydantic are faster, but reject the lone surrogates that models
write and logs must preserve, and silently keep the last of two equal keys; a schema (msgspec, pydantic) would replace
checks that log readers make in any case, and would be a hard dependency. The only addition on the hot path, a check
of every object's keys, takes a tenth of the time to read a log.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NoReturn

from creditflow.envs.errors import DataError, short_repr
from creditflow.envs.reading.limits import JSON, MAX_LINE, MAX_ROWS_FILE, Limits
from creditflow.envs.reading.plain_data import check_plain
from creditflow.envs.reading.streams import read_lines, read_text

__all__ = [
    "RepeatedKeyError",
    "decode_json",
    "parse_json",
    "read_json",
    "read_json_lines",
    "read_json_rows",
    "unique_keys",
]


class RepeatedKeyError(ValueError):
    """An object has the same key twice."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the key {short_repr(key, 80)} occurs twice in one object")


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object with distinct keys (``object_pairs_hook`` of a decoder).

    Raises:
        RepeatedKeyError: a key occurs twice.
    """
    pairs_by_key = dict(pairs)
    if len(pairs_by_key) != len(pairs):
        seen = set[str]()
        for key, _ in pairs:
            if key in seen:
                raise RepeatedKeyError(key)
            seen.add(key)
    return pairs_by_key


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


_DECODER: Final = json.JSONDecoder(object_pairs_hook=unique_keys, parse_constant=_reject_constant)
_LENIENT: Final = json.JSONDecoder(
    object_pairs_hook=unique_keys, parse_constant=lambda _: None, parse_float=lambda text: _finite(float(text))
)


def parse_json(data: str | bytes, *, where: str, limits: Limits = JSON, nan_as_null: bool = False) -> Any:
    """Parse an untrusted JSON text.

    Args:
        data: text, or its UTF-8 bytes.
        where: file, line or request, with which every message begins.
        limits: limits of the text and of its values.
        nan_as_null: whether NaN and infinities, which Python and pandas write (also as 1e999), are None instead of an error.

    Returns:
        Dicts without repeated keys, lists, strings, finite numbers, booleans and None, within the limits.

    Raises:
        DataError: any other text; names ``where``, and a repeated key.
    """
    if len(data) > limits.characters:
        raise DataError(f"{where}: longer than {limits.characters:,} characters")
    try:
        text = data.decode("utf-8") if isinstance(data, bytes) else data
        value = decode_json(text, decoder=_LENIENT if nan_as_null else _DECODER)
    except UnicodeDecodeError as error:
        raise DataError(f"{where}: not UTF-8 text ({error.reason} at byte {error.start})") from error
    except ValueError as error:
        raise DataError(f"{where}: not JSON: {error}") from error
    check_plain(value, limits, where)
    return value


def decode_json(text: str, *, decoder: json.JSONDecoder = _DECODER) -> Any:
    """Decode a text of bounded length, for readers that check every value themselves (all others use ``parse_json``).

    Args:
        text: the text.
        decoder: decoder of this module.

    Raises:
        ValueError: not JSON, a repeated key, NaN or an infinity, too many levels; names no file.
    """
    try:
        return decoder.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read_json(path: str | Path, limits: Limits = JSON) -> Any:
    """Parse a JSON file, compressed with gzip or not.

    Raises:
        DataError: an unreadable file, or see ``parse_json``; names the file.
    """
    return parse_json(read_text(path, limits.characters), where=str(path), limits=limits)


def read_json_lines(path: str | Path, *, longest: int = MAX_LINE) -> Iterator[tuple[str, Any]]:
    """Yield the values of a JSON Lines file, gzip or not, each with its position: "file: line 7". Skips blank lines.

    Raises:
        DataError: as ``read_json``; names file and line.
    """
    limits = Limits(characters=longest)
    for where, line in read_lines(path, longest):
        if not line.isspace():
            yield where, parse_json(line, where=where, limits=limits)


def read_json_rows(
    path: str | Path, *, longest: int = MAX_ROWS_FILE, nan_as_null: bool = False
) -> list[tuple[str, Any]]:
    """Return the rows of a JSON Lines file, or the elements of a file with one JSON list, each with its position.

    Args:
        path: the file.
        longest: limit of its characters.
        nan_as_null: as for ``parse_json``.

    Raises:
        DataError: as ``read_json``.
    """
    text = read_text(path, longest)
    if text.lstrip()[:1] == "[":
        rows = parse_json(text, where=str(path), limits=Limits(characters=longest), nan_as_null=nan_as_null)
        return [(f"{path}: row {number}", row) for number, row in enumerate(rows, 1)]
    lines = ((f"{path}: line {number}", line) for number, line in enumerate(text.split("\n"), 1))
    return [
        (where, parse_json(line, where=where, nan_as_null=nan_as_null))
        for where, line in lines
        if line and not line.isspace()
    ]
