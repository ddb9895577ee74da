"""Folders of memory-mapped files with checksums: indexes of passages.

``header.json`` contains a checksum of itself and, for every other file, its length and checksum. Header and lengths are
verified on every opening, as are contents of files up to ``MAX_CHECKED`` bytes; larger ones are verified on demand. There is
no pickle: arrays are raw little-endian numbers, texts are UTF-8 or JSON.

Checksums detect damage, not tampering: whoever can write a folder can write new checksums. Our own readers therefore
validate what they read; libraries that open their own files in such a folder (Lucene) do not.
"""

from __future__ import annotations

import json
import mmap
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import DataError
from creditflow.envs.reading.json_text import read_json

__all__ = ["HEADER", "Blob", "ChecksummedFolder", "belongs_to_checksummed_folder", "is_checksummed", "write_checksums"]

F = TypeVar("F")
HEADER: Final = "header.json"
MAX_CHECKED: Final = 1 << 26  # bytes; contents of larger files are verified on demand only
_CHUNK: Final = 1 << 22


def is_checksummed(path: str | Path) -> bool:
    """Return whether the path has the header of a checksummed folder."""
    return (Path(path) / HEADER).is_file()


def belongs_to_checksummed_folder(path: Path) -> bool:
    """Return whether a file belongs to the checksummed folder around it, as its header or as a file that the header lists."""
    try:
        header = json.loads((path.parent / HEADER).read_text(encoding="ascii"))
    except (OSError, ValueError, RecursionError):
        return False
    files = header.get("files") if isinstance(header, dict) else None
    return isinstance(files, dict) and (path.name == HEADER or path.name in files)


def write_checksums(folder: Path, kind: str, facts: dict[str, Any]) -> int:
    """Write the header of a folder, with checksums of all its files; return their total bytes.

    Args:
        folder: contains the files and nothing else.
        kind: name and version of the format.
        facts: other entries of the header.
    """
    sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    files = {name: {"bytes": size, "blake2b": _checksum(folder / name)} for name, size in sizes.items()}
    header = {**facts, "format": kind, "files": files}
    text = json.dumps({**header, "checksum": _header_checksum(header)}, sort_keys=True, indent=1)
    (folder / HEADER).write_text(text, encoding="ascii")
    return sum(sizes.values())


class ChecksummedFolder:
    """A verified folder: its header, and its files as arrays.

    Args:
        path: the folder.
        kind: required name and version of the format.
        how_to_fix: what to do about a damaged folder; ends every error message.

    Raises:
        DataError: not a checksummed folder, of another format, or damaged; names the file.
    """

    def __init__(self, path: str | Path, kind: str, how_to_fix: str) -> None:
        self.path, self.how_to_fix = Path(path), how_to_fix
        self.header = self._read_header(kind)
        for name, entry in self.header["files"].items():
            self._check(name, entry)

    def _read_header(self, kind: str) -> dict[str, Any]:
        try:
            header = read_json(self.path / HEADER)
        except DataError as error:
            raise DataError(f"{self.path}: its {HEADER} cannot be read ({error}); {self.how_to_fix}") from error
        if not isinstance(header, dict) or header.get("format") != kind:
            raise DataError(f"{self.path}: expected a folder of format {kind!r}; {self.how_to_fix}")
        if header.pop("checksum", None) != _header_checksum(header):
            raise DataError(f"{self.path}: {HEADER} was changed or damaged; {self.how_to_fix}")
        if not _names_files(header.get("files")):  # a forged header has a valid checksum too
            raise DataError(f"{self.path}: {HEADER} must name files with their bytes and blake2b; {self.how_to_fix}")
        return header

    def _check(self, name: str, entry: dict[str, Any]) -> None:
        path = self.path / name
        if Path(name).name != name or "\0" in name or path.is_symlink() or not path.is_file():
            raise DataError(f"{self.path}: the file {name!r} is missing, or not a regular file; {self.how_to_fix}")
        size = path.stat().st_size
        if size != entry["bytes"]:
            raise DataError(f"{path} has {size} bytes, expected {entry['bytes']}; {self.how_to_fix}")
        if size <= MAX_CHECKED:
            self._check_content(name)

    def _check_content(self, name: str) -> None:
        if _checksum(self.path / name) != self.header["files"][name]["blake2b"]:
            raise DataError(f"{self.path / name}: its content is damaged (checksum differs); {self.how_to_fix}")

    def verify(self) -> None:
        """Verify the contents of all files, of any size.

        Raises:
            DataError: a damaged file.
        """
        for name in self.header["files"]:
            self._check_content(name)

    def fact(self, name: str, kind: type[F]) -> F:
        """Return an entry of the header.

        Raises:
            DataError: a missing entry, or one of another type.
        """
        value = self.header.get(name)
        if type(value) is not kind:
            raise DataError(f"{self.path}: {HEADER} must have {name!r}, a {kind.__name__}; {self.how_to_fix}")
        return value

    def __contains__(self, name: str) -> bool:
        return name in self.header["files"]

    def array(self, name: str, dtype: str) -> NDArray[Any]:
        """Return a file of raw numbers, memory-mapped and read-only.

        Raises:
            DataError: the header names no such file, or its size does not fit the type.
        """
        path = self.file(name)
        size = path.stat().st_size
        if size % np.dtype(dtype).itemsize:
            raise DataError(f"{path}: {size} bytes are not a multiple of the size of {dtype}; {self.how_to_fix}")
        return np.memmap(path, dtype=dtype, mode="r") if size else np.empty(0, dtype)

    def offsets(self, name: str, total: int) -> NDArray[np.int64]:
        """Return a file of int64 offsets that begin with 0, never decrease, and end with ``total``.

        Raises:
            DataError: as ``array``; or other values.
        """
        offsets = self.array(name, "<i8")
        if not len(offsets) or offsets[0] or int(offsets[-1]) != total or (offsets[1:] < offsets[:-1]).any():
            raise DataError(f"{self.path / name}: expected offsets from 0 up to {total}; {self.how_to_fix}")
        return offsets

    def rows(self, name: str, below: int) -> NDArray[np.int32]:
        """Return a file of int32 row numbers.

        Raises:
            DataError: as ``array``; or a number outside [0, ``below``).
        """
        numbers = self.array(name, "<i4")
        if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < below:
            raise DataError(f"{self.path / name}: expected row numbers from 0 to {below - 1}; {self.how_to_fix}")
        return numbers

    def blob(self, name: str, suffix: str = ".bin") -> Blob:
        """Return a file of byte strings, which has its offsets next to it.

        Raises:
            DataError: the header names no such files, or the offsets do not fit.
        """
        path = self.file(name + suffix)
        return Blob(path, self.offsets(f"{name}.offsets", path.stat().st_size))

    def file(self, name: str) -> Path:
        """Return the path of a file that the header lists.

        Raises:
            DataError: the header names no such file.
        """
        if name not in self:
            raise DataError(f"{self.path}: {HEADER} names no file {name!r}; {self.how_to_fix}")
        return self.path / name


class Blob:
    """Byte strings in one memory-mapped file.

    Args:
        path: the file.
        offsets: int64 (n + 1,): offset of each string, and the end.
    """

    def __init__(self, path: Path, offsets: NDArray[np.int64]) -> None:
        self._offsets = offsets
        with path.open("rb") as file:
            self._map: bytes | mmap.mmap = (
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if path.stat().st_size else b""
            )

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, i: int) -> bytes:
        if not 0 <= i < len(self):
            raise IndexError(i)
        return self._map[int(self._offsets[i]) : int(self._offsets[i + 1])]


def _checksum(path: Path) -> str:
    """Return the blake2b-128 of a file, read in chunks."""
    digest = blake2b(digest_size=16)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _header_checksum(header: dict[str, Any]) -> str:
    text = json.dumps(header, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode("ascii"), digest_size=16).hexdigest()


def _names_files(files: Any) -> bool:
    """Return whether ``files`` is a table of files as ``write_checksums`` writes it."""
    return isinstance(files, dict) and all(
        isinstance(entry, dict) and type(entry.get("bytes")) is int and isinstance(entry.get("blake2b"), str)
        for entry in files.values()
    )
