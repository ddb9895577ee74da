"""Passages in an index folder: one JSON lines file read by offset, indexed by hashes of id, page and title.

Files are memory-mapped, so reading takes no memory that grows with the corpus; writing keeps some 60 bytes per passage.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import DataError
from creditflow.envs.files.checksummed_folder import ChecksummedFolder
from creditflow.envs.reading.json_text import decode_json
from creditflow.envs.wikisearch.retrieval.base import Passage, read_document, write_document

__all__ = ["PASSAGES", "DiskCorpus", "PassageWriter"]

PASSAGES: Final = "passages.jsonl"
KEYS: Final[dict[str, Callable[[Passage], str]]] = {
    "id": lambda passage: passage.id,
    "page": lambda passage: passage.page,
    "title": lambda passage: passage.title,
}


def _hash(name: str) -> int:
    return int.from_bytes(blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


class PassageWriter:
    """Writes the passages of a folder, one at a time.

    Args:
        folder: receives the files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._out = (folder / PASSAGES).open("wb")
        self._offsets = array("q", [0])
        self._hashes = {name: array("Q") for name in KEYS}
        self._digest = blake2b(digest_size=16)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def add(self, passage: Passage) -> None:
        """Write the next passage."""
        row = write_document(passage)
        try:
            line = json.dumps(row, ensure_ascii=False).encode()
        except UnicodeEncodeError:  # a lone surrogate can only be written as an escape
            line = json.dumps(row).encode()
        self._out.write(line + b"\n")
        self._offsets.append(self._offsets[-1] + len(line) + 1)
        self._digest.update(json.dumps([passage.id, passage.page, passage.contents]).encode("ascii"))
        for name, key in KEYS.items():
            self._hashes[name].append(_hash(key(passage)))

    def close(self) -> None:
        """Close the file, finished or not."""
        self._out.close()

    def finish(self) -> str:
        """Write offsets and orders; returns the digest of the corpus.

        Raises:
            DataError: there are no passages, or an id occurs twice.
        """
        self.close()
        if not len(self):
            raise DataError("there are no passages to index")
        np.frombuffer(self._offsets, np.int64).astype("<i8").tofile(self._folder / "passages.offsets")
        for name in KEYS:
            hashes = np.frombuffer(self._hashes[name], np.uint64)
            order = np.argsort(hashes, kind="stable")  # rows of equal hashes stay in order
            if name == "id":
                self._check_unique(hashes[order], order)
            order.astype("<i4").tofile(self._folder / f"by_{name}.i4")
            hashes[order].astype("<u8").tofile(self._folder / f"by_{name}.u8")
        return self._digest.hexdigest()

    def _check_unique(self, hashes: NDArray[np.uint64], order: NDArray[np.int64]) -> None:
        for at in np.flatnonzero(hashes[1:] == hashes[:-1]).tolist():
            first, second = (self._id(int(row)) for row in order[at : at + 2])
            if first == second:
                raise DataError(f"passage ids must be unique; {first[:60]!r} occurs twice")

    def _id(self, row: int) -> str:
        with (self._folder / PASSAGES).open("rb") as lines:
            lines.seek(self._offsets[row])
            return read_document(json.loads(lines.readline())).id


class DiskCorpus:
    """Passages of an index folder.

    Args:
        files: the folder.

    Raises:
        DataError: its files do not fit together.
    """

    def __init__(self, files: ChecksummedFolder) -> None:
        self._path = files.path
        self._lines = files.blob("passages", ".jsonl")
        self._orders = {
            name: (files.array(f"by_{name}.u8", "<u8"), files.rows(f"by_{name}.i4", len(self))) for name in KEYS
        }
        self.digest = files.fact("digest", str)
        for name, (hashes, rows) in self._orders.items():
            if not len(hashes) == len(rows) == len(self):
                raise DataError(
                    f"{files.path}: by_{name} has {len(rows)} rows, expected {len(self)}; {files.how_to_fix}"
                )

    def __len__(self) -> int:
        return len(self._lines)

    def passage(self, row: int) -> Passage:
        """The passage of a row.

        Raises:
            DataError: the line is damaged.
        """
        try:
            return read_document(decode_json(self._lines[row].decode("utf-8")), quotes=True)
        except ValueError as error:  # DataError, or not JSON, or not UTF-8
            raise DataError(f"{self._path}: passage {row} is damaged; rebuild the index: {error}") from error

    def _named(self, name: str, value: str) -> tuple[int, ...]:
        """Rows whose id, page or title is this, in order."""
        hashes, rows = self._orders[name]
        target = np.uint64(_hash(value))
        first, last = (int(np.searchsorted(hashes, target, side)) for side in ("left", "right"))
        key = KEYS[name]
        return tuple(row for row in rows[first:last].tolist() if key(self.passage(row)) == value)

    def row(self, passage_id: str) -> int | None:
        """The row of an id, or None."""
        return next(iter(self._named("id", passage_id)), None)

    def page_rows(self, page: str) -> tuple[int, ...]:
        """The rows of a page, in order."""
        return self._named("page", page)

    def find_page(self, name: str) -> str | None:
        """The page with this page id, passage id or title."""
        if self.page_rows(name):
            return name
        row = self.row(name)
        if row is None:
            row = next(iter(self._named("title", name)), None)
        return None if row is None else self.passage(row).page
