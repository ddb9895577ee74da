"""Streaming of JSON files too large for memory: one pass, one element at a time, plain or gzip.

A truncated file has an error message of its own, since incomplete downloads are the usual problem with WebShop's 5 GB
file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

from creditflow.envs.errors import DataError, short_repr
from creditflow.envs.reading.json_text import RepeatedKeyError, unique_keys
from creditflow.envs.reading.limits import JSON, MAX_RECORD
from creditflow.envs.reading.plain_data import check_plain
from creditflow.envs.reading.streams import open_text

__all__ = ["stream_items", "stream_records"]

CHUNK = 1 << 20
MAX_TOKEN = 32  # characters of a literal, number or escape that may be cut
_VISIBLE: Final = re.compile(r"[^ \t\n\r]")


class _Reader:
    """A window over a text file with a JSON decoder at its front."""

    def __init__(self, stream: IO[str], path: Path) -> None:
        self._stream, self._path = stream, path
        self._buffer, self._at, self._ended = "", 0, False
        self.last = ""  # name of the value that was consumed last
        self._decoder = json.JSONDecoder(object_pairs_hook=unique_keys, parse_constant=_missing)

    def _fill(self) -> bool:
        """At least double the unparsed text, so that a long element is parsed only O(log length) times; False at the end."""
        try:
            chunk = self._stream.read(max(CHUNK, len(self._buffer) - self._at))
        except OSError as error:
            raise DataError(f"{self._path} cannot be read ({error.strerror})") from error
        except UnicodeDecodeError as error:
            raise DataError(f"{self._path} is not UTF-8 text ({error.reason} at byte {error.start})") from error
        self._buffer, self._at = self._buffer[self._at :] + chunk, 0
        self._ended = not chunk
        return bool(chunk)

    def truncated(self) -> DataError:
        return DataError(f"{self._path}: ends in the middle; the file is truncated, download it again")

    def peek(self) -> str:
        """The next character that is not white space; "" at the end of the file."""
        while True:
            if match := _VISIBLE.search(self._buffer, self._at):
                self._at = match.start()
                return match[0]
            self._at = len(self._buffer)
            if not self._fill():
                return ""

    def expect(self, chars: str, where: str) -> str:
        """Consume the next character, one of ``chars``."""
        char = self.peek()
        if not char:
            raise self.truncated()
        if char not in chars:
            expected = " or ".join(repr(c) for c in chars)
            raise DataError(
                f"{self._path}: expected {expected} {where}, got {short_repr(char)}; the file is not the JSON expected"
            )
        self._at += 1
        return char

    def value(self, where: str) -> Any:
        """Consume one JSON value; ``where`` describes it in messages."""
        self.last = where
        self.peek()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._buffer, self._at)
            except RecursionError as error:
                raise DataError(f"{self._path}: {where} is nested too deeply") from error
            except RepeatedKeyError as error:
                raise DataError(f"{self._path}: {where}: {error}") from error
            except json.JSONDecodeError as error:
                # an element that the window cuts fails inside a string, or at its very end
                cut = error.msg.startswith("Unterminated string") or len(self._buffer) - error.pos < MAX_TOKEN
                if not cut or len(self._buffer) - self._at > MAX_RECORD:
                    size = f" within {MAX_RECORD:,} characters" if cut else ""
                    raise DataError(f"{self._path}: {where} is not JSON{size}: {error.msg}") from error
                if not self._fill():
                    raise self.truncated() from error
                continue
            except ValueError as error:  # an integer of more digits than Python reads
                raise DataError(f"{self._path}: {where} is not JSON that can be read: {error}") from error
            if type(value) in (int, float) and len(self._buffer) - end < MAX_TOKEN and not self._ended:
                self._fill()  # the number may continue
                continue
            self._at = end
            check_plain(value, JSON, f"{self._path}: {where}")
            return value


def _missing(_name: str) -> None:
    """NaN, which pandas writes where a table has no value."""


def _elements(path: Path, brackets: str, what: str) -> Iterator[_Reader]:
    """The reader before every element of a list or an object; the caller consumes the element."""
    opening, closing = brackets[0], brackets[1]
    with open_text(path) as stream:
        reader = _Reader(stream, path)
        reader.expect(opening, f"at the start of {what}")
        if reader.peek() == closing:
            return
        while True:
            yield reader
            if reader.expect("," + closing, f"after {reader.last}") == closing:
                return


def stream_records(path: str | Path) -> Iterator[Any]:
    """The elements of a JSON list, one after the other.

    Raises:
        DataError: the file cannot be read, is truncated, or is not a JSON list; the message states which.
    """
    for number, reader in enumerate(_elements(Path(path), "[]", "a list")):
        yield reader.value(f"record {number}")


def stream_items(path: str | Path) -> Iterator[tuple[str, Any]]:
    """The (key, value) pairs of a JSON object, one after the other.

    Raises:
        DataError: as ``stream_records``.
    """
    seen: set[str] = set()
    for reader in _elements(Path(path), "{}", "an object"):
        key = reader.value("a key")
        if not isinstance(key, str):
            raise DataError(f"{path}: expected a key in quotes, got {short_repr(key, 40)}")
        if key in seen:
            raise DataError(f"{path}: the key {key[:40]!r} occurs twice")
        seen.add(key)
        reader.expect(":", f"after the key {key[:40]!r}")
        yield key, reader.value(f"the entry {key[:40]!r}")
