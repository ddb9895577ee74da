"""Tar archives as streams, plain or packed with gzip or xz: what a member's headers take is bounded too.

``tarfile`` reads the headers before a member (long names, PAX attributes, maps of sparse files) into memory, whatever size
they claim. Here the stream below it ends in an error where a member's headers go on for too long.
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
from creditflow.envs.reading.limits import (
    MAX_ARCHIVE_BYTES,
    MAX_ARCHIVE_MEMBERS,
    MAX_MEMBER_BYTES,
    MAX_MEMBER_HEADERS,
)
from creditflow.envs.reading.streams import PackedError, Unpacked

__all__ = ["iter_members"]

_XZ: Final = b"\xfd7zXZ\x00"
_GZIP: Final = b"\x1f\x8b"
_XZ_MEMORY: Final = 2**28  # bytes that the decompressor may ask for; ``xz -9`` needs 65 MB
_BLOCK: Final = 2**16


class _XzFile:
    """An xz stream under a limit of memory, which ``lzma.open`` does not offer."""

    def __init__(self, raw: Any, mode: str) -> None:  # noqa: ARG002 - called as gzip.open is
        self._raw, self._unpacker = raw, self._fresh()

    @staticmethod
    def _fresh() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)

    def read(self, size: int) -> bytes:
        while True:
            if self._unpacker.eof:
                packed = self._unpacker.unused_data or self._raw.read(_BLOCK)
                if not packed.strip(b"\0"):  # the end, or padding up to it
                    return b""
                self._unpacker = self._fresh()
            else:
                packed = self._raw.read(_BLOCK) if self._unpacker.needs_input else b""
                if not packed and self._unpacker.needs_input:
                    raise EOFError("the stream ends before its end marker")
            if data := self._unpacker.decompress(packed, size):
                return data

    def close(self) -> None:
        """Nothing is held."""


class _Fence:
    """A stream that must not be read beyond a place, which moves on with every member."""

    def __init__(self, raw: BinaryIO, path: Path) -> None:
        self._raw, self._path, self._at, self._place = raw, path, 0, MAX_MEMBER_HEADERS

    def move(self, end: int) -> None:
        """The next member's headers may begin here."""
        if end > MAX_ARCHIVE_BYTES:
            raise DataError(f"{self._path}: unpacks to more than {MAX_ARCHIVE_BYTES:,} bytes")
        self._place = end + MAX_MEMBER_HEADERS

    def read(self, size: int) -> bytes:
        data = self._raw.read(size)
        self._at += len(data)
        if self._at > self._place + tarfile.RECORDSIZE:  # tarfile reads whole records
            raise DataError(f"{self._path}: the headers of a member take more than {MAX_MEMBER_HEADERS:,} bytes")
        return data


def iter_members(path: str | Path, wanted: Callable[[tarfile.TarInfo], str | None]) -> Iterator[tuple[str, bytes]]:
    """The wanted members of an archive, in its order: (name, content).

    Args:
        path: of the archive.
        wanted: the name to give a member, or None to pass over it.

    Raises:
        DataError: not a readable archive, or beyond a limit.
    """
    path = Path(path)
    try:
        with (
            loading(f"{path}: not a readable tar archive; expected .tar, .tar.gz or .tar.xz"),
            path.open("rb") as raw,
            _unpacked(raw) as stream,
        ):
            fence = _Fence(stream, path)
            with tarfile.open(fileobj=fence, mode="r|") as archive:  # type: ignore[call-overload]  # only read() is called
                yield from _members(archive, fence, wanted, path)
    except PackedError as error:
        raise DataError(f"{path}: {error}") from error


def _members(
    archive: tarfile.TarFile, fence: _Fence, wanted: Callable[[tarfile.TarInfo], str | None], path: Path
) -> Iterator[tuple[str, bytes]]:
    for count, member in enumerate(archive):
        if count >= MAX_ARCHIVE_MEMBERS:
            raise DataError(f"{path}: holds more than {MAX_ARCHIVE_MEMBERS:,} members")
        if member.issparse():
            raise DataError(f"{path}: {short_repr(member.name, 120)} is a sparse file, which is not read")
        fence.move(member.offset_data + -(-member.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE)
        name = wanted(member)
        if name is not None:
            yield name, _content(archive, member, path)


def _unpacked(raw: io.BufferedReader) -> io.BufferedReader:
    start = raw.peek(len(_XZ))
    if start.startswith(_XZ):
        return io.BufferedReader(Unpacked(raw, _XzFile, "xz"), _BLOCK)
    return io.BufferedReader(Unpacked(raw, gzip.open, "gzip"), _BLOCK) if start.startswith(_GZIP) else raw


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> bytes:
    if member.size > MAX_MEMBER_BYTES:
        raise DataError(
            f"{path}: {short_repr(member.name, 120)} has {member.size:,} bytes, more than {MAX_MEMBER_BYTES:,}"
        )
    stream = archive.extractfile(member)
    content = b"" if stream is None else stream.read()
    if len(content) != member.size:
        raise DataError(f"{path}: {short_repr(member.name, 120)} is cut short, or no plain file")
    return content
