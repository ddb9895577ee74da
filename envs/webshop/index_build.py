"""The inverted index of a catalogue too large for memory: postings are spilled to disk, then sorted by term.

One pass writes (term, row, count) as the documents come; the second puts every posting in its place, counted out
beforehand. Memory holds the vocabulary and one block of postings.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.webshop.analyser import analyse
from creditflow.envs.webshop.bm25 import length_weights

__all__ = ["IndexWriter", "write_blob"]

BLOCK: Final = 1 << 22  # postings held at a time
_POSTING: Final = np.dtype([("term", "<i4"), ("row", "<i4"), ("count", "<i4")])


def write_blob(folder: Path, name: str, items: list[bytes]) -> None:
    """Byte strings as ``<name>.bin`` and ``<name>.offsets``."""
    offsets = np.zeros(len(items) + 1, "<i8")
    np.cumsum([len(item) for item in items], out=offsets[1:])
    (folder / f"{name}.bin").write_bytes(b"".join(items))
    offsets.tofile(folder / f"{name}.offsets")


class IndexWriter:
    """Takes documents in row order, then writes the index files into a folder.

    Args:
        folder: where the files and, meanwhile, the spill go.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._spill = folder / "postings.spill"
        self._file = self._spill.open("wb")
        self._numbers: dict[str, int] = {}
        self._lengths: list[int] = []
        self._block: list[tuple[int, int, int]] = []

    def add(self, document: str) -> None:
        """Index the next lower-case document."""
        terms = analyse(document)
        row = len(self._lengths)
        self._lengths.append(len(terms))
        for term, count in Counter(terms).items():
            self._block.append((self._numbers.setdefault(term, len(self._numbers)), row, count))
        if len(self._block) >= BLOCK // 8:
            self._flush()

    def close(self) -> None:
        """Close the spill, finished or not."""
        self._file.close()

    def _flush(self) -> None:
        np.array(self._block, _POSTING).tofile(self._file)
        self._block.clear()

    def finish(self) -> None:
        """Write vocabulary and postings, and remove the spill."""
        self._flush()
        self.close()
        terms = sorted(self._numbers, key=lambda term: term.encode("utf-8", "surrogatepass"))
        place = np.empty(len(terms), np.int64)  # number at first sight -> number in sorted order
        for i, term in enumerate(terms):
            place[self._numbers[term]] = i
        write_blob(self._folder, "terms", [term.encode("utf-8", "surrogatepass") for term in terms])
        counts = np.zeros(len(terms), np.int64)
        for block in self._blocks():
            counts += np.bincount(place[block["term"]], minlength=len(terms))
        starts = np.zeros(len(terms) + 1, "<i8")
        np.cumsum(counts, out=starts[1:])
        starts.tofile(self._folder / "postings_starts.i8")
        self._place(place, starts)
        self._spill.unlink()

    def _blocks(self) -> Any:
        with self._spill.open("rb") as file:
            while len(block := np.fromfile(file, _POSTING, BLOCK)):
                yield block

    def _place(self, place: NDArray[np.int64], starts: NDArray[np.int64]) -> None:
        total = int(starts[-1])
        inverse = length_weights(np.array(self._lengths, np.int64))
        rows, weights = (
            self._output("postings_rows.i4", "<i4", total),
            self._output("postings_weights.f4", "<f4", total),
        )
        cursor = starts[:-1].copy()
        for block in self._blocks():
            numbers = place[block["term"]]
            order = np.argsort(numbers, kind="stable")
            numbers, block = numbers[order], block[order]
            first = np.flatnonzero(np.r_[True, numbers[1:] != numbers[:-1]])
            sizes = np.diff(np.r_[first, len(numbers)])
            target = np.repeat(cursor[numbers[first]] - first, sizes) + np.arange(len(numbers))
            cursor[numbers[first]] += sizes
            rows[target] = block["row"]
            weights[target] = block["count"].astype(np.float32) * inverse[block["row"]]
        for array in (rows, weights):
            if isinstance(array, np.memmap):
                array.flush()

    def _output(self, name: str, dtype: str, length: int) -> NDArray[Any]:
        path = self._folder / name
        if length == 0:
            path.write_bytes(b"")
            return np.empty(0, dtype)
        return np.memmap(path, dtype, "w+", shape=(length,))
