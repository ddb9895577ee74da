"""Files as bounded streams, plain or gzip, read in chunks.

A file is decompressed if its name ends in ``.gz`` or it starts with gzip's magic bytes. Data that decompresses to more than
``MAX_RATIO`` times its size is an error, so memory and time stay in proportion to the file.
"""

from __future__ import annotations

import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, Final

from creditflow.envs.errors import DataError
from creditflow.envs.reading.limits import ALLOWANCE, MAX_BLANK_LINES, MAX_RATIO

__all__ = [
    "CompressedDataError",
    "Decompressed",
    "numbered_lines",
    "open_bytes",
    "open_text",
    "read_bytes",
    "read_lines",
    "read_text",
]

_GZIP: Final = b"\x1f\x8b"
_BUFFER: Final = 2**20
_BOM: Final = "\ufeff"  # which PowerShell and Excel put before a text
DAMAGE: Final = (EOFError, OSError, zlib.error, lzma.LZMAError)


class CompressedDataError(DataError):
    """Compressed data is damaged, or decompresses to too much; callers prepend the file or line."""


class _Counted:
    """A stream that counts the bytes which a decompressor reads."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw, self.count = raw, 0

    def read(self, size: int = -1) -> bytes:
        data = self._raw.read(size)
        self.count += len(data)
        return data


class Decompressed(io.RawIOBase):
    """A decompressed stream with a limit on the compression ratio.

    Args:
        raw: compressed bytes.
        opener: function from a compressed to a readable binary file, such as ``gzip.open``.
        kind: name of the compression, for messages.
    """

    def __init__(self, raw: BinaryIO, opener: Any, kind: str) -> None:
        self._compressed, self._kind, self.count = _Counted(raw), kind, 0
        self._file = opener(self._compressed)

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes.

        Raises:
            CompressedDataError: damaged or truncated data, or a ratio beyond the limit.
        """
        try:
            data = self._file.read(len(buffer))
        except DAMAGE as error:
            raise CompressedDataError(
                f"damaged or truncated {self._kind} data ({error}); download or write it again"
            ) from error
        self.count += len(data)
        if self.count > ALLOWANCE and self.count > MAX_RATIO * self._compressed.count:
            raise CompressedDataError(
                f"decompresses to more than {MAX_RATIO} times its size; if you trust the file, decompress it yourself"
            )
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the decompressor."""
        self._file.close()
        super().close()


@contextmanager
def open_bytes(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file for reading decompressed bytes.

    Raises:
        DataError: a missing or unreadable file; while reading, see ``Decompressed``.
    """
    path = Path(path)
    try:
        raw: Any = path.open("rb")
    except (OSError, ValueError) as error:  # a name with a zero byte is a ValueError
        reason = "is a folder" if path.is_dir() else getattr(error, "strerror", None) or error
        raise DataError(f"{path} cannot be read: {reason}") from error
    with raw:
        try:
            start = raw.peek(len(_GZIP))[: len(_GZIP)]
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror}") from error
        if path.suffix == ".gz" and not start:
            raise DataError(f"{path}: an empty file is not a gzip file: is it truncated?")
        if path.suffix != ".gz" and start != _GZIP:
            yield raw
            return
        with io.BufferedReader(Decompressed(raw, gzip.open, "gzip"), _BUFFER) as stream:
            try:
                yield stream
            except CompressedDataError as error:
                raise DataError(f"{path}: {error}") from error


@contextmanager
def open_text(path: str | Path, encoding: str = "utf-8") -> Iterator[IO[str]]:
    """Open a file for reading decompressed text; only a newline ends a line.

    Raises:
        DataError: see ``open_bytes``. Invalid bytes raise ``UnicodeDecodeError`` while reading.
    """
    with open_bytes(path) as raw, io.TextIOWrapper(raw, encoding=encoding, errors="strict", newline="\n") as stream:
        yield stream


def read_bytes(path: str | Path, limit: int) -> bytes:
    """Return the decompressed content of a file.

    Raises:
        DataError: an unreadable file, or more than ``limit`` bytes.
    """
    with open_bytes(path) as stream:
        chunks, size = [], 0
        try:
            while chunk := stream.read(_BUFFER):  # a read of ``limit`` bytes would allocate that much memory at once
                chunks.append(chunk)
                size += len(chunk)
                if size > limit:
                    raise DataError(f"{path}: more than {limit:,} bytes")
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror}") from error
    return b"".join(chunks)


def read_text(path: str | Path, limit: int, encoding: str = "utf-8") -> str:
    """Return the decompressed text of a file.

    Raises:
        DataError: as ``read_bytes``; or bytes that are invalid in this encoding.
    """
    try:
        return read_bytes(path, limit).decode(encoding).removeprefix(_BOM)
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not {encoding.upper()} text ({error.reason} at byte {error.start})") from error


def read_lines(path: str | Path, longest: int, encoding: str = "utf-8") -> Iterator[tuple[str, str]]:
    """Yield the lines of a file with their newlines, each with its position: "file: line 7".

    Raises:
        DataError: as ``read_text``; or a line of more than ``longest`` characters.
    """
    with open_text(path, encoding) as stream:
        yield from numbered_lines(stream, str(path), longest, encoding)


def numbered_lines(stream: IO[str], name: str, longest: int, encoding: str = "utf-8") -> Iterator[tuple[str, str]]:
    """Yield the lines of an open stream as ``read_lines`` does; ``name`` stands for it in messages."""
    number = blank = 0
    while True:
        number += 1
        where = f"{name}: line {number}"
        try:
            line = stream.readline(longest + 1)
        except UnicodeDecodeError as error:
            raise DataError(f"{where} or after: not {encoding.upper()} text ({error.reason})") from error
        except CompressedDataError as error:
            raise DataError(f"{where} or after: {error}") from error
        except OSError as error:
            raise DataError(f"{where} cannot be read: {error.strerror}") from error
        if not line:
            return
        if number == 1:
            line = line.removeprefix(_BOM)
        if len(line) > longest:
            raise DataError(f"{where}: longer than {longest:,} characters")
        if line.isspace():
            blank += 1
            if blank > MAX_BLANK_LINES:
                raise DataError(f"{where}: more than {MAX_BLANK_LINES:,} blank lines")
        yield where, line
