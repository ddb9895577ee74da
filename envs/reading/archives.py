"""Tar archives as streams, plain or compressed with gzip or xz, with limits on headers too.

``tarfile`` reads the headers before a member (long names, PAX attributes, maps of sparse files) into memory, whatever size
they claim. Here the stream beneath it raises an error when the headers of a member are too long.
"""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

from creditflow.envs.errors import DataError, short_repr
from creditflow.envs.reading.failures import loading
from creditflow.envs.reading.limits import MAX_ARCHIVE_BYTES, MAX_ARCHIVE_MEMBERS, MAX_MEMBER_BYTES, MAX_MEMBER_HEADERS
from creditflow.envs.reading.streams import CompressedDataError, Decompressed

__all__ = ["iter_members"]

_XZ: Final = b"\xfd7zXZ\x00"
_GZIP: Final = b"\x1f\x8b"
_XZ_MEMORY: Final = 2**28  # bytes of memory for the decompressor; ``xz -9`` needs 65 MB
_BLOCK: Final = 2**16


class _XzFile:
    """An xz stream with a memory limit, which ``lzma.open`` does not offer."""

    def __init__(self, raw: Any) -> None:
        self._raw, self._decompressor = raw, self._fresh()

    @staticmethod
    def _fresh() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)

    def read(self, size: int) -> bytes:
        while True:
            if self._decompressor.eof:
                compressed = self._decompressor.unused_data or self._raw.read(_BLOCK)
                if not compressed.strip(b"\0"):  # the end, or padding up to it
                    return b""
                self._decompressor = self._fresh()
            else:
                compressed = self._raw.read(_BLOCK) if self._decompressor.needs_input else b""
                if not compressed and self._decompressor.needs_input:
                    raise EOFError("the stream ends before its end marker")
            if data := self._decompressor.decompress(compressed, size):
                return data

    def close(self) -> None:
        """Do nothing: no resource is open."""


class _HeaderLimit:
    """A stream with a read limit, which every member moves forward."""

    def __init__(self, raw: BinaryIO, path: Path) -> None:
        self._raw, self._path, self._position, self._limit = raw, path, 0, MAX_MEMBER_HEADERS

    def move(self, end: int) -> None:
        """Set the limit for the headers of the next member, which begin at ``end``."""
        if end > MAX_ARCHIVE_BYTES:
            raise DataError(f"{self._path}: unpacks to more than {MAX_ARCHIVE_BYTES:,} bytes")
        self._limit = end + MAX_MEMBER_HEADERS

    def read(self, size: int) -> bytes:
        data = self._raw.read(size)
        self._position += len(data)
        if self._position > self._limit + tarfile.RECORDSIZE:  # tarfile reads whole records
            raise DataError(f"{self._path}: the headers of a member take more than {MAX_MEMBER_HEADERS:,} bytes")
        return data


def iter_members(path: str | Path, select: Callable[[tarfile.TarInfo], str | None]) -> Iterator[tuple[str, bytes]]:
    """Yield the selected members of an archive, in its order: (name, content).

    Args:
        path: path of the archive.
        select: returns the name to report for a member, or None to skip it.

    Raises:
        DataError: not a readable archive, or beyond a limit.
    """
    path = Path(path)
    try:
        with (
            loading(f"{path}: not a readable tar archive; expected .tar, .tar.gz or .tar.xz"),
            path.open("rb") as raw,
            _decompressed(raw) as stream,
        ):
            limited = _HeaderLimit(stream, path)
            with tarfile.open(fileobj=limited, mode="r|") as archive:  # type: ignore[call-overload]  # only read() is called
                yield from _members(archive, limited, select, path)
    except CompressedDataError as error:
        raise DataError(f"{path}: {error}") from error


def _members(
    archive: tarfile.TarFile, limited: _HeaderLimit, select: Callable[[tarfile.TarInfo], str | None], path: Path
) -> Iterator[tuple[str, bytes]]:
    for count, member in enumerate(archive):
        if count >= MAX_ARCHIVE_MEMBERS:
            raise DataError(f"{path}: contains more than {MAX_ARCHIVE_MEMBERS:,} members")
        if member.issparse():
            raise DataError(f"{path}: {short_repr(member.name, 120)} is a sparse file, which is not supported")
        limited.move(member.offset_data + -(-member.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE)
        name = select(member)
        if name is not None:
            yield name, _content(archive, member, path)


def _decompressed(raw: io.BufferedReader) -> io.BufferedReader:
    start = raw.peek(len(_XZ))
    if start.startswith(_XZ):
        return io.BufferedReader(Decompressed(raw, _XzFile, "xz"), _BLOCK)
    return io.BufferedReader(Decompressed(raw, gzip.open, "gzip"), _BLOCK) if start.startswith(_GZIP) else raw


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> bytes:
    if member.size > MAX_MEMBER_BYTES:
        raise DataError(
            f"{path}: {short_repr(member.name, 120)} has {member.size:,} bytes, more than {MAX_MEMBER_BYTES:,}"
        )
    stream = archive.extractfile(member)
    content = b"" if stream is None else stream.read()
    if len(content) != member.size:
        raise DataError(f"{path}: {short_repr(member.name, 120)} is truncated, or not a regular file")
    return content
