"""Postings: counts of every term in every document, collected in blocks, then ordered by term."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.text.bm25.analyser import term_of, words

__all__ = ["POSTING", "Block", "PostingCounter", "place_postings", "starts_of"]

POSTING: Final = np.dtype([("term", "<i4"), ("row", "<i4"), ("count", "<i4")])
Block = np.ndarray[tuple[int], np.dtype[np.void]]  # of POSTING
BLOCK_TERMS: Final = 1 << 21  # terms of a block


class PostingCounter:
    """Counts the terms of a stream of documents.

    Attributes:
        numbers: term -> number, in order of first appearance.
        blocks: the finished blocks of postings, each sorted by term, then row; rows ascend from block to block.
    """

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.blocks: list[Block] = []
        self._lengths = array("q")
        self._of_word: dict[str, int] = {}  # -1: a stop word
        self._terms = array("q")  # terms of the documents after the last block, concatenated
        self._blocked = 0

    def __len__(self) -> int:
        return len(self._lengths)

    def lengths(self) -> NDArray[np.int64]:
        """Return int64 (documents,): number of terms in each, with repeats."""
        return np.array(self._lengths, np.int64)

    def add(self, document: str) -> None:
        """Count the next lower-case document."""
        of_word, numbers, terms = self._of_word, self.numbers, self._terms
        before = len(terms)
        for word in words(document):
            number = of_word.get(word)
            if number is None:
                term = term_of(word)
                number = of_word[word] = numbers.setdefault(term, len(numbers)) if term else -1
            if number >= 0:
                terms.append(number)
        self._lengths.append(len(terms) - before)
        if len(terms) >= BLOCK_TERMS:
            self.flush()

    def flush(self) -> None:
        """Finish the block of the documents since the last one."""
        lengths = self.lengths()[self._blocked :]
        rows = np.repeat(np.arange(self._blocked, self._blocked + len(lengths), dtype=np.int64), lengths)
        keys, counts = np.unique((np.array(self._terms, np.int64) << 32) | rows, return_counts=True)
        block = np.empty(len(keys), POSTING)
        block["term"], block["row"], block["count"] = keys >> 32, keys & 0xFFFFFFFF, counts
        self.blocks.append(block)
        self._terms, self._blocked = array("q"), len(self._lengths)


def starts_of(blocks: Iterable[Block], terms: int) -> NDArray[np.int64]:
    """Return int64 (terms + 1,): start of each term's postings when ordered by term."""
    counts = np.zeros(terms, np.int64)
    for block in blocks:
        counts += np.bincount(block["term"], minlength=terms)
    starts = np.zeros(terms + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


def place_postings(
    blocks: Iterable[Block],
    starts: NDArray[np.int64],
    inverse: NDArray[np.float32],
    rows: NDArray[np.int32],
    weights: NDArray[np.float32],
) -> None:
    """Fill ``rows`` and ``weights`` (postings,), term by term.

    Args:
        blocks: each sorted by term.
        starts: result of ``starts_of``.
        inverse: inv(d) of each document.
        rows: output, document numbers.
        weights: output, tf · inv(d).
    """
    cursor = starts[:-1].copy()
    for block in blocks:
        terms = block["term"]
        first = np.flatnonzero(np.diff(terms, prepend=-1))
        sizes = np.diff(first, append=len(terms))
        target = np.repeat(cursor[terms[first]] - first, sizes) + np.arange(len(terms))
        cursor[terms[first]] += sizes
        rows[target] = block["row"]
        weights[target] = block["count"].astype(np.float32) * inverse[block["row"]]
