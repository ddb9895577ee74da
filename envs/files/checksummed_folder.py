"""Folders of memory-mapped files that are verified when they are opened: stores of products, indexes of passages.

``header.json`` carries a checksum of itself and, for every other file, its length and checksum. Header and lengths are
verified on every opening, contents of files up to ``CHECKED`` bytes too, those of larger ones on demand. There is no
pickle: arrays are raw little-endian numbers, texts are UTF-8 or JSON.

Checksums find damage, not malice: whoever can write a folder can seal it again. Our own readers therefore check what they
read, and refuse what does not fit together; libraries that open their own files in such a folder (tantivy, Lucene) do not.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import DataError
from creditflow.envs.reading.json_text import read_json

__all__ = [
    "HEADER",
    "Blob",
    "ChecksummedFolder",
    "checksummed_entry",
    "is_checksummed",
    "write_blob",
    "write_checksums",
]

F = TypeVar("F")
HEADER: Final = "header.json"
CHECKED: Final = 1 << 26  # bytes: larger files are checksummed on demand only
_CHUNK: Final = 1 << 22


def is_checksummed(path: str | Path) -> bool:
    """Whether the path looks like a sealed folder."""
    return (Path(path) / HEADER).is_file()


def checksummed_entry(path: Path) -> bool:
    """Whether a file belongs to the sealed folder it lies in: it is the header, or the header names it."""
    try:
        header = json.loads((path.parent / HEADER).read_text(encoding="ascii"))
    except (OSError, ValueError, RecursionError):
        return False
    files = header.get("files") if isinstance(header, dict) else None
    return isinstance(files, dict) and (path.name == HEADER or path.name in files)


def write_checksums(folder: Path, kind: str, facts: dict[str, Any]) -> int:
    """Write the header over all files of a folder; returns their bytes.

    Args:
        folder: holds the files and nothing else.
        kind: name and version of the format.
        facts: what else the header says.
    """
    sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    files = {name: {"bytes": size, "blake2b": _checksum(folder / name)} for name, size in sizes.items()}
    header = {**facts, "format": kind, "files": files}
    text = json.dumps({**header, "checksum": _header_checksum(header)}, sort_keys=True, indent=1)
    (folder / HEADER).write_text(text, encoding="ascii")
    return sum(sizes.values())


def write_blob(folder: Path, name: str, items: Sequence[bytes]) -> None:
    """Byte strings as ``<name>.bin`` and ``<name>.offsets``."""
    offsets = np.zeros(len(items) + 1, "<i8")
    np.cumsum([len(item) for item in items], out=offsets[1:])
    (folder / f"{name}.bin").write_bytes(b"".join(items))
    offsets.tofile(folder / f"{name}.offsets")


class ChecksummedFolder:
    """A verified folder: its header, and its files as arrays.

    Args:
        path: the folder.
        kind: name and version of the format it must have.
        how_to_fix: what to do about a damaged one; ends the message.

    Raises:
        DataError: no sealed folder, of another format, or damaged; says which file.
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
        if not _names_files(header.get("files")):  # whoever writes a header can write its checksum too
            raise DataError(f"{self.path}: {HEADER} must name files with their bytes and blake2b; {self.how_to_fix}")
        return header

    def _check(self, name: str, entry: dict[str, Any]) -> None:
        path = self.path / name
        if Path(name).name != name or "\0" in name or path.is_symlink() or not path.is_file():
            raise DataError(f"{self.path}: the file {name!r} is missing, or no plain file; {self.how_to_fix}")
        size = path.stat().st_size
        if size != entry["bytes"]:
            raise DataError(f"{path}: has {size} bytes, expected {entry['bytes']}; {self.how_to_fix}")
        if size <= CHECKED:
            self._check_content(name)

    def _check_content(self, name: str) -> None:
        if _checksum(self.path / name) != self.header["files"][name]["blake2b"]:
            raise DataError(f"{self.path / name}: its content is damaged (checksum differs); {self.how_to_fix}")

    def verify(self) -> None:
        """Compare every byte with its checksum, whatever the size.

        Raises:
            DataError: what is damaged.
        """
        for name in self.header["files"]:
            self._check_content(name)

    def fact(self, name: str, kind: type[F]) -> F:
        """What the header says under a name.

        Raises:
            DataError: nothing, or something of another kind.
        """
        value = self.header.get(name)
        if type(value) is not kind:
            raise DataError(f"{self.path}: {HEADER} must hold {name!r}, a {kind.__name__}; {self.how_to_fix}")
        return value

    def __contains__(self, name: str) -> bool:
        return name in self.header["files"]

    def array(self, name: str, dtype: str) -> NDArray[Any]:
        """A file of raw numbers, memory-mapped and read-only.

        Raises:
            DataError: the header names no such file, or it does not hold such numbers.
        """
        path = self.file(name)
        size = path.stat().st_size
        if size % np.dtype(dtype).itemsize:
            raise DataError(f"{path}: {size} bytes hold no whole number of {dtype}; {self.how_to_fix}")
        return np.memmap(path, dtype=dtype, mode="r") if size else np.empty(0, dtype)

    def starts(self, name: str, total: int) -> NDArray[np.int64]:
        """A file of int64 places that begin with 0, never fall, and end with ``total``.

        Raises:
            DataError: as ``array``; or they do not.
        """
        places = self.array(name, "<i8")
        if not len(places) or places[0] or int(places[-1]) != total or (places[1:] < places[:-1]).any():
            raise DataError(f"{self.path / name}: expected places from 0 up to {total}; {self.how_to_fix}")
        return places

    def rows(self, name: str, below: int) -> NDArray[np.int32]:
        """A file of int32 row numbers.

        Raises:
            DataError: as ``array``; or one is negative, or not below ``below``.
        """
        found = self.array(name, "<i4")
        if len(found) and not 0 <= int(found.min()) <= int(found.max()) < below:
            raise DataError(f"{self.path / name}: expected row numbers from 0 to {below - 1}; {self.how_to_fix}")
        return found

    def blob(self, name: str, suffix: str = ".bin") -> Blob:
        """A file of byte strings, with its offsets beside it.

        Raises:
            DataError: the header names no such files, or they do not fit together.
        """
        path = self.file(name + suffix)
        return Blob(path, self.starts(f"{name}.offsets", path.stat().st_size))

    def file(self, name: str) -> Path:
        """The path of a file that the header names.

        Raises:
            DataError: it names no such file.
        """
        if name not in self:
            raise DataError(f"{self.path}: {HEADER} names no file {name!r}; {self.how_to_fix}")
        return self.path / name


class Blob:
    """Byte strings in one memory-mapped file.

    Args:
        path: the file.
        offsets: int64 (n + 1,): where each begins.
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
    """blake2b-128 of a file, read piece by piece."""
    digest = blake2b(digest_size=16)
    with path.open("rb") as file:
        while piece := file.read(_CHUNK):
            digest.update(piece)
    return digest.hexdigest()


def _header_checksum(header: dict[str, Any]) -> str:
    text = json.dumps(header, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode("ascii"), digest_size=16).hexdigest()


def _names_files(files: Any) -> bool:
    """Whether it is a table of files as ``write_checksums`` writes it."""
    return isinstance(files, dict) and all(
        isinstance(entry, dict) and type(entry.get("bytes")) is int and isinstance(entry.get("blake2b"), str)
        for entry in files.values()
    )
