"""An index as files of a sealed folder: written with bounded memory, read by memory map.

One pass spills postings to disk as the documents come; the second puts every one in its place. Memory holds the
vocabulary and one block of postings while writing, and nothing but what is asked for while searching.
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
    """Takes documents in row order, then writes the index files into a folder.

    Args:
        folder: where the files and, meanwhile, the spill go.
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
        """Close the spill, finished or not."""
        self._file.close()

    def finish(self) -> None:
        """Write vocabulary and postings, and remove the spill."""
        self._counter.flush()
        self.close()
        numbers = {term.encode("utf-8", "surrogatepass"): number for term, number in self._counter.numbers.items()}
        terms = sorted(numbers)
        place = np.empty(len(terms), np.int32)  # number at first sight -> number in sorted order
        place[[numbers[term] for term in terms]] = np.arange(len(terms))
        write_blob(self._folder, "terms", terms)
        starts = starts_of(self._blocks(place), len(terms))
        starts.astype("<i8").tofile(self._folder / "postings_starts.i8")
        rows = self._output("postings_rows.i4", "<i4", int(starts[-1]))
        weights = self._output("postings_weights.f4", "<f4", int(starts[-1]))
        place_postings(self._blocks(place), starts, length_weights(self._counter.lengths()), rows, weights)
        for array in (rows, weights):
            if isinstance(array, np.memmap):
                array.flush()
        self._spill.unlink()

    def _blocks(self, place: NDArray[np.int32]) -> Iterator[Block]:
        """The spilled postings under their final term numbers, sorted by them."""
        with self._spill.open("rb") as file:
            while len(block := np.fromfile(file, POSTING, BLOCK)):
                block["term"] = place[block["term"]]
                yield block[np.argsort(block["term"], kind="stable")]

    def _output(self, name: str, dtype: str, length: int) -> NDArray[Any]:
        path = self._folder / name
        if length == 0:
            path.write_bytes(b"")
            return np.empty(0, dtype)
        return np.memmap(path, dtype, "w+", shape=(length,))


class _StoredVocabulary:
    """Terms in sorted order; a lookup is a binary search on disk, remembered."""

    def __init__(self, terms: Blob) -> None:
        self._terms = terms
        self.get = lru_cache(CACHED_TERMS)(self._find)

    def _find(self, term: str) -> int | None:
        wanted = term.encode("utf-8", "surrogatepass")
        place = bisect_left(self._terms, wanted)
        return place if place < len(self._terms) and self._terms[place] == wanted else None

    def __len__(self) -> int:
        return len(self._terms)


def stored_index(files: ChecksummedFolder, ranks: NDArray[np.int32]) -> BM25:
    """The search index of a folder that an ``IndexWriter`` filled.

    Args:
        files: the folder.
        ranks: int32 (documents,): places of the documents' ids in sorted order.

    Raises:
        DataError: its files do not fit together.
    """
    terms = files.blob("terms")
    rows, weights = files.rows("postings_rows.i4", len(ranks)), files.array("postings_weights.f4", "<f4")
    starts = files.starts("postings_starts.i8", len(rows))
    if len(starts) != len(terms) + 1 or len(rows) != len(weights):
        raise DataError(f"{files.path}: terms and postings do not fit together; {files.how_to_fix}")
    return BM25(_StoredVocabulary(terms), starts, rows, weights, ranks)
