"""Files as bounded streams: plain or gzip, read piece by piece, whatever is wrong with them named.

A file is unpacked if its name ends in ``.gz`` or it begins as gzip files do. What unpacks to ``MAX_RATIO`` times what was
read is refused, so memory and time stay in proportion to the file.
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
    "PackedError",
    "Unpacked",
    "numbered_lines",
    "open_bytes",
    "open_text",
    "read_bytes",
    "read_lines",
    "read_text",
    "unpack_bytes",
]

_GZIP: Final = b"\x1f\x8b"
_BUFFER: Final = 2**20
DAMAGE: Final = (EOFError, OSError, zlib.error, lzma.LZMAError)


class PackedError(DataError):
    """Packed bytes are damaged or blow up; who knows the place puts it in front."""


class _Counted:
    """What a decompressor reads from, with the number of bytes it took."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw, self.count = raw, 0

    def read(self, size: int = -1) -> bytes:
        data = self._raw.read(size)
        self.count += len(data)
        return data


class Unpacked(io.RawIOBase):
    """What a decompressor gives, refused where it blows up.

    Args:
        raw: packed bytes.
        opener: of a file object, as ``gzip.open`` is.
        kind: of the packing, for messages.
    """

    def __init__(self, raw: BinaryIO, opener: Any, kind: str) -> None:
        self._packed, self._kind, self.count = _Counted(raw), kind, 0
        self._file = opener(self._packed, "rb")

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """The next bytes.

        Raises:
            PackedError: damaged, cut short, or blown up.
        """
        try:
            data = self._file.read(len(buffer))
        except DAMAGE as error:
            raise PackedError(f"damaged {self._kind} data, or cut short ({error}); get or write it again") from error
        self.count += len(data)
        if self.count > ALLOWANCE and self.count > MAX_RATIO * self._packed.count:
            raise PackedError(
                f"unpacks to more than {MAX_RATIO} times its size, which no honest file does; unpack it by yourself if "
                "you trust it"
            )
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Let go of the decompressor."""
        self._file.close()
        super().close()


@contextmanager
def open_bytes(path: str | Path) -> Iterator[BinaryIO]:
    """The bytes of a file, unpacked.

    Raises:
        DataError: there is no such file, or it cannot be read; while reading, see ``Unpacked``.
    """
    path = Path(path)
    try:
        raw: Any = path.open("rb")
    except (OSError, ValueError) as error:  # a name with a zero byte is a ValueError
        reason = "is a folder" if path.is_dir() else getattr(error, "strerror", None) or error
        raise DataError(f"{path}: cannot be read: {reason}") from error
    with raw:
        try:
            start = raw.peek(len(_GZIP))[: len(_GZIP)]
        except OSError as error:
            raise DataError(f"{path}: cannot be read: {error.strerror}") from error
        if path.suffix == ".gz" and not start:
            raise DataError(f"{path}: an empty file, without a line, is no gzip archive: was it cut short?")
        if path.suffix != ".gz" and start != _GZIP:
            yield raw
            return
        with io.BufferedReader(Unpacked(raw, gzip.open, "gzip"), _BUFFER) as stream:
            try:
                yield stream
            except PackedError as error:
                raise DataError(f"{path}: {error}") from error


@contextmanager
def open_text(path: str | Path, encoding: str = "utf-8") -> Iterator[IO[str]]:
    """The text of a file; only a newline ends a line.

    Raises:
        DataError: see ``open_bytes``. Bytes that are no text raise ``UnicodeDecodeError`` while reading.
    """
    with open_bytes(path) as raw, io.TextIOWrapper(raw, encoding=encoding, errors="strict", newline="\n") as stream:
        yield stream


def read_bytes(path: str | Path, limit: int) -> bytes:
    """The whole content of a file, unpacked.

    Raises:
        DataError: it cannot be read, or holds more than ``limit`` bytes.
    """
    with open_bytes(path) as stream:
        pieces, size = [], 0
        try:
            while piece := stream.read(_BUFFER):  # a read of ``limit`` bytes would ask for so much memory at once
                pieces.append(piece)
                size += len(piece)
                if size > limit:
                    raise DataError(f"{path}: holds more than {limit:,} bytes")
        except OSError as error:
            raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    return b"".join(pieces)


def read_text(path: str | Path, limit: int, encoding: str = "utf-8") -> str:
    """The whole text of a file, unpacked.

    Raises:
        DataError: as ``read_bytes``; or bytes that are no text of this encoding.
    """
    try:
        return read_bytes(path, limit).decode(encoding)
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not {encoding.upper()} text ({error.reason} at byte {error.start})") from error


def read_lines(path: str | Path, longest: int, encoding: str = "utf-8") -> Iterator[tuple[str, str]]:
    """The lines of a file with their newlines, each with its place: "file: line 7".

    Raises:
        DataError: as ``read_text``; or a line of more than ``longest`` characters.
    """
    with open_text(path, encoding) as stream:
        yield from numbered_lines(stream, str(path), longest, encoding)


def numbered_lines(stream: IO[str], name: str, longest: int, encoding: str = "utf-8") -> Iterator[tuple[str, str]]:
    """``read_lines`` of an open stream that messages call ``name``."""
    number = blank = 0
    while True:
        number += 1
        where = f"{name}: line {number}"
        try:
            line = stream.readline(longest + 1)
        except UnicodeDecodeError as error:
            raise DataError(f"{where} or after: not {encoding.upper()} text ({error.reason})") from error
        except PackedError as error:
            raise DataError(f"{where} or after: {error}") from error
        except OSError as error:
            raise DataError(f"{where}: cannot be read: {error.strerror}") from error
        if not line:
            return
        if len(line) > longest:
            raise DataError(f"{where}: longer than {longest:,} characters")
        if line.isspace():
            blank += 1
            if blank > MAX_BLANK_LINES:
                raise DataError(f"{where}: holds more than {MAX_BLANK_LINES:,} blank lines")
        yield where, line


def unpack_bytes(data: bytes, limit: int, where: str) -> bytes:
    """What ``zlib.compress`` packed.

    Raises:
        DataError: damaged, or more than ``limit`` bytes.
    """
    unpacker = zlib.decompressobj()
    try:
        found = unpacker.decompress(data, limit + 1)
    except zlib.error as error:
        raise DataError(f"{where}: damaged ({error})") from error
    if len(found) > limit:
        raise DataError(f"{where}: unpacks to more than {limit:,} bytes")
    if not unpacker.eof:
        raise DataError(f"{where}: cut short")
    return found
