"""JSON from outside: one function for documents, one for lines whose values the caller checks by itself.

The standard library's decoder does the work. msgspec, orjson and pydantic are faster, but refuse the lone surrogates that
models write, which logs must carry, and keep the last of two equal keys without a word; a schema (msgspec, pydantic)
would replace checks that logs make in any case, for a hard dependency. The one thing added here on the hot path, a look
at every object's keys, costs a tenth of the time it takes to read a log.
"""

from __future__ import annotations

import json
import re
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
    """An object names a key twice."""

    def __init__(self, key: str, line: int = 0) -> None:
        super().__init__(
            f"the key {short_repr(key, 80)} occurs twice in one object" + (f" (line {line})" if line else "")
        )


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys differ (``object_pairs_hook`` of a decoder).

    Raises:
        RepeatedKeyError: they do not.
    """
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        raise RepeatedKeyError(next(key for place, key in enumerate(keys) if key in keys[:place]))
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=unique_keys, parse_constant=_refuse_constant)


def parse_json(data: str | bytes, *, where: str, limits: Limits = JSON) -> Any:
    """The value of a JSON text from outside.

    Args:
        data: text, or its UTF-8 bytes.
        where: file, line or request; begins every message.
        limits: of the text and of what it holds.

    Returns:
        Dicts without repeated keys, lists, strings, finite numbers, booleans and None, within the limits.

    Raises:
        DataError: anything else; names the place, and line and key where a key is repeated.
    """
    if len(data) > limits.characters:
        raise DataError(f"{where}: longer than {limits.characters:,} characters")
    try:
        value = decode_json(data.decode("utf-8") if isinstance(data, bytes) else data)
    except UnicodeDecodeError as error:
        raise DataError(f"{where}: not UTF-8 text ({error.reason} at byte {error.start})") from error
    except ValueError as error:
        raise DataError(f"{where}: not JSON: {error}") from error
    check_plain(value, limits, where)
    return value


def decode_json(text: str) -> Any:
    """The value of a text of bounded length, for readers that check every value by themselves (``parse_json`` for all others).

    Raises:
        ValueError: not JSON, a repeated key, NaN or an infinity, too many levels; without a place.
    """
    try:
        return _DECODER.decode(text)
    except RepeatedKeyError:
        raise RepeatedKeyError(*_repeated_key(text)) from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


_PART: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]', re.DOTALL)


def _repeated_key(text: str) -> tuple[str, int]:
    """The first key that occurs twice in one object, and its line. Slow: for texts that are known to hold one."""
    open_objects: list[set[str] | None] = []  # None for a list
    before = ""
    for match in _PART.finditer(text):
        part = match.group()
        if part in ("{", "["):
            open_objects.append(set() if part == "{" else None)
        elif part in ("}", "]"):
            open_objects.pop()
        elif part == ":":
            keys, key = open_objects[-1], json.loads(before)
            if keys is not None:
                if key in keys:
                    return key, text.count("\n", 0, match.start()) + 1
                keys.add(key)
        before = part
    raise AssertionError("no key is repeated")


def read_json(path: str | Path, limits: Limits = JSON) -> Any:
    """The value of a JSON file, packed with gzip or not.

    Raises:
        DataError: it cannot be read, or see ``parse_json``; names the file.
    """
    return parse_json(read_text(path, limits.characters), where=str(path), limits=limits)


def read_json_lines(path: str | Path, *, longest: int = MAX_LINE) -> Iterator[tuple[str, Any]]:
    """The values of a JSON Lines file, packed with gzip or not, each with its place: "file: line 7". Blank lines are skipped.

    Raises:
        DataError: as ``read_json``; names file and line.
    """
    limits = Limits(characters=longest)
    for where, line in read_lines(path, longest):
        if not line.isspace():
            yield where, parse_json(line, where=where, limits=limits)


def read_json_rows(path: str | Path, *, longest: int = MAX_ROWS_FILE) -> list[tuple[str, Any]]:
    """The rows of a JSON Lines file, or the elements of a file with one JSON list, each with its place.

    Raises:
        DataError: as ``read_json``.
    """
    text = read_text(path, longest)
    if text.lstrip()[:1] == "[":
        rows = parse_json(text, where=str(path), limits=Limits(characters=longest))
        return [(f"{path}: row {number}", row) for number, row in enumerate(rows, 1)]
    lines = ((f"{path}: line {number}", line) for number, line in enumerate(text.split("\n"), 1))
    return [(where, parse_json(line, where=where)) for where, line in lines if line and not line.isspace()]
