"""An index as files of a checksummed folder: written with bounded memory, read by memory map.

The first pass spills postings to disk, the second one orders them by term. Writing needs memory for the vocabulary and one
block of postings; searching only for the pages that it touches.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import DataError
from creditflow.envs.files.checksummed_folder import Blob, ChecksummedFolder, write_blob
from creditflow.envs.text.bm25.index import BM25, length_weights
from creditflow.envs.text.bm25.postings import POSTING, Block, PostingCounter, place_postings, starts_of

__all__ = ["IndexWriter", "stored_index"]

BLOCK: Final = 1 << 22  # postings read back at a time
CACHED_TERMS: Final = 1 << 16


class IndexWriter:
    """Indexes documents in row order, then writes the index files into a folder.

    Args:
        folder: folder of the files and of the temporary spill file.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._spill = folder / "postings.spill"
        self._file = self._spill.open("wb")
        self._counter = PostingCounter(lambda block: block.tofile(self._file))

    def add(self, document: str) -> None:
        """Index the next lower-case document."""
        self._counter.add(document)

    def close(self) -> None:
        """Close the spill file, finished or not."""
        self._file.close()

    def finish(self) -> None:
        """Write vocabulary and postings, and remove the spill file."""
        self._counter.flush()
        self.close()
        numbers = {term.encode("utf-8", "surrogatepass"): number for term, number in self._counter.numbers.items()}
        terms = sorted(numbers)
        renumbered = np.empty(len(terms), np.int32)  # number by first occurrence -> number in sorted order
        renumbered[[numbers[term] for term in terms]] = np.arange(len(terms))
        write_blob(self._folder, "terms", terms)
        starts = starts_of(self._blocks(renumbered), len(terms))
        starts.astype("<i8").tofile(self._folder / "postings_starts.i8")
        rows = self._output("postings_rows.i4", "<i4", int(starts[-1]))
        weights = self._output("postings_weights.f4", "<f4", int(starts[-1]))
        place_postings(self._blocks(renumbered), starts, length_weights(self._counter.lengths()), rows, weights)
        for array in (rows, weights):
            if isinstance(array, np.memmap):
                array.flush()
        self._spill.unlink()

    def _blocks(self, renumbered: NDArray[np.int32]) -> Iterator[Block]:
        """Yield the spilled postings with their final term numbers, sorted by them."""
        with self._spill.open("rb") as file:
            while len(block := np.fromfile(file, POSTING, BLOCK)):
                block["term"] = renumbered[block["term"]]
                yield block[np.argsort(block["term"], kind="stable")]

    def _output(self, name: str, dtype: str, length: int) -> NDArray[Any]:
        path = self._folder / name
        if length == 0:
            path.write_bytes(b"")
            return np.empty(0, dtype)
        return np.memmap(path, dtype, "w+", shape=(length,))


class _StoredVocabulary:
    """Terms in sorted order; lookups are binary searches on disk, cached."""

    def __init__(self, terms: Blob) -> None:
        self._terms = terms
        self.get = lru_cache(CACHED_TERMS)(self._find)

    def _find(self, term: str) -> int | None:
        key = term.encode("utf-8", "surrogatepass")
        position = bisect_left(self._terms, key)
        return position if position < len(self._terms) and self._terms[position] == key else None

    def __len__(self) -> int:
        return len(self._terms)


def stored_index(files: ChecksummedFolder, ranks: NDArray[np.int32]) -> BM25:
    """Open the search index of a folder that an ``IndexWriter`` wrote.

    Args:
        files: the folder.
        ranks: int32 (documents,): ranks of the documents' ids in sorted order.

    Raises:
        DataError: its files do not fit together.
    """
    terms = files.blob("terms")
    rows, weights = files.rows("postings_rows.i4", len(ranks)), files.array("postings_weights.f4", "<f4")
    starts = files.offsets("postings_starts.i8", len(rows))
    if len(starts) != len(terms) + 1 or len(rows) != len(weights):
        raise DataError(f"{files.path}: terms and postings do not fit together; {files.how_to_fix}")
    return BM25(_StoredVocabulary(terms), starts, rows, weights, ranks)
