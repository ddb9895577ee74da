"""BM25 over an inverted index in NumPy, score for score what Lucene computes.

    score(q, d) = Σ_t  w_t − w_t / (1 + tf · inv(d)),     w_t = count of t in q · ln(1 + (N − df + ½) / (df + ½))
    inv(d) = 1 / (k₁ · (1 − b + b · |d| / avgdl)),         k₁ = 0.9, b = 0.4

Lucene stores |d| in one byte (``encode_length``) and computes each term in float32, so both are done here. Equal scores
are ordered by product id; documents without a query term are not returned.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.webshop.analyser import analyse

__all__ = ["BM25", "MemoryVocabulary", "Vocabulary", "build_index", "encode_length"]

K1, B = np.float32(0.9), np.float32(0.4)


def encode_length(length: int) -> int:
    """The length that Lucene's one-byte code remembers: exact below 40, then four significant bits above 24.

    >>> [encode_length(n) for n in (7, 39, 40, 41, 57, 1000)]
    [7, 39, 40, 40, 56, 984]
    """
    if length < 40:
        return length
    rest = length - 24
    shift = rest.bit_length() - 4
    return 24 + ((rest >> shift) << shift)


class Vocabulary(Protocol):
    """Term to number, in memory or on disk."""

    def get(self, term: str) -> int | None:
        """The term's number, or None if no document has it."""
        ...

    def __len__(self) -> int: ...


class MemoryVocabulary:
    """A vocabulary in a dictionary; terms are numbered as they come."""

    __slots__ = ("_numbers",)

    def __init__(self, terms: Sequence[str]) -> None:
        self._numbers = {term: i for i, term in enumerate(terms)}

    def get(self, term: str) -> int | None:
        """The term's number, or None if no document has it."""
        return self._numbers.get(term)

    def __len__(self) -> int:
        return len(self._numbers)


@dataclass(frozen=True, eq=False)
class BM25:
    """An immutable index; arrays may be memory-mapped.

    Attributes:
        vocabulary: term to term number.
        starts: int64 (terms + 1,): where each term's postings begin.
        documents: int32 (postings,): document numbers, ascending within a term.
        weights: float32 (postings,): tf · inv(d).
        ranks: int32 (N,): place of the document's id among all ids sorted, which breaks ties.
    """

    vocabulary: Vocabulary
    starts: NDArray[np.int64]
    documents: NDArray[np.int32]
    weights: NDArray[np.float32]
    ranks: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.ranks)

    def search(self, query: str, k: int = 50) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The best ``k`` documents for a lower-case query.

        Returns:
            document numbers (n,) and scores (n,), best first, n ≤ k.
        """
        counts = Counter(analyse(query))
        n = len(self.ranks)
        scores = np.zeros(n, np.float64)
        for term, count in counts.items():
            number = self.vocabulary.get(term)
            if number is None:
                continue
            first, last = int(self.starts[number]), int(self.starts[number + 1])
            df = last - first
            idf = np.float32(math.log(1 + (n - df + 0.5) / (df + 0.5)))
            weight = np.float32(count) * idf
            scores[self.documents[first:last]] += weight - weight / (np.float32(1) + self.weights[first:last])
        rounded = scores.astype(np.float32)
        found = np.flatnonzero(rounded > 0)
        if len(found) > k:
            top = rounded[found]
            found = found[top >= np.partition(top, len(top) - k)[len(top) - k]]
        order = np.lexsort((self.ranks[found], -rounded[found]))[:k]
        found = found[order]
        return found, rounded[found]


def ranks_of(ids: Sequence[str]) -> NDArray[np.int32]:
    """int32 (N,): the place of each id among all ids in sorted order."""
    ranks = np.empty(len(ids), np.int32)
    ranks[sorted(range(len(ids)), key=ids.__getitem__)] = np.arange(len(ids), dtype=np.int32)
    return ranks


def length_weights(lengths: NDArray[np.int64]) -> NDArray[np.float32]:
    """inv(d), float32 (N,), of the document lengths (N,) in terms."""
    average = np.float32(lengths.sum() / max(1, len(lengths)))
    coded = np.array([encode_length(int(n)) for n in lengths], np.float32)
    return np.float32(1) / (K1 * ((np.float32(1) - B) + B * coded / average))


def build_index(documents: Iterable[str], ids: Sequence[str]) -> BM25:
    """Index lower-case documents in memory.

    Args:
        documents: texts in document order.
        ids: product ids in the same order.
    """
    numbers: dict[str, int] = {}
    postings: list[list[int]] = []
    counts: list[list[int]] = []
    lengths = np.zeros(len(ids), np.int64)
    for row, document in enumerate(documents):
        terms = analyse(document)
        lengths[row] = len(terms)
        for term, count in Counter(terms).items():
            number = numbers.setdefault(term, len(numbers))
            if number == len(postings):
                postings.append([])
                counts.append([])
            postings[number].append(row)
            counts[number].append(count)
    starts = np.zeros(len(postings) + 1, np.int64)
    np.cumsum([len(rows) for rows in postings], out=starts[1:])
    flat = np.fromiter((row for rows in postings for row in rows), np.int32, int(starts[-1]))
    tf = np.fromiter((count for row in counts for count in row), np.float32, int(starts[-1]))
    return BM25(MemoryVocabulary(list(numbers)), starts, flat, tf * length_weights(lengths)[flat], ranks_of(ids))
