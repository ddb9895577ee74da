"""BM25 over an inverted index in NumPy, with the scores that Lucene computes.

    score(q, d) = Σ_t  w_t − w_t / (1 + tf · inv(d)),     w_t = count of t in q · ln(1 + (N − df + ½) / (df + ½))
    inv(d) = 1 / (k₁ · (1 − b + b · |d| / avgdl)),         k₁ = 0.9, b = 0.4

Lucene stores |d| in one byte (``coded_lengths``), computes each term in float32 and sums in float64; so does this. Equal
scores are ordered by document id; documents without a query term are not returned.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.text.bm25.analyser import analyse
from creditflow.envs.text.bm25.postings import PostingCounter, place_postings, starts_of

__all__ = ["BM25", "build_index", "coded_lengths"]

K1, B = np.float32(0.9), np.float32(0.4)


@dataclass(frozen=True, eq=False)
class BM25:
    """An immutable index.

    Attributes:
        vocabulary: term -> number.
        starts: int64 (terms + 1,): where each term's postings begin.
        rows: int32 (postings,): document numbers, ascending within a term.
        weights: float32 (postings,): tf · inv(d).
        ranks: int32 (N,): rank of the document's id among the sorted ids, which breaks ties.
    """

    vocabulary: Mapping[str, int]
    starts: NDArray[np.int64]
    rows: NDArray[np.int32]
    weights: NDArray[np.float32]
    ranks: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.ranks)

    def search(self, query: str, k: int = 50) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return the ``k`` best documents for a lower-case query.

        Returns:
            document numbers (n,) and scores (n,), best first, n ≤ k.
        """
        n = len(self.ranks)
        scores = np.zeros(n, np.float64)
        for term, count in Counter(analyse(query)).items():
            number = self.vocabulary.get(term)
            if number is None:
                continue
            first, last = int(self.starts[number]), int(self.starts[number + 1])
            df = last - first
            weight = np.float32(count) * np.float32(math.log(1 + (n - df + 0.5) / (df + 0.5)))
            rows = self.rows[first:last].astype(np.intp)  # converted once, for both reading and writing
            scores[rows] += weight - weight / (np.float32(1) + self.weights[first:last])
        return self._best(scores.astype(np.float32), max(k, 0))

    def rank(self, queries: Sequence[str], k: int) -> list[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """Return the ``k`` best documents for each query, of any case."""
        return [self.search(query.lower(), k) for query in queries]

    def _best(self, scores: NDArray[np.float32], k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        rows = np.flatnonzero(scores > 0)  # several times faster on booleans than on numbers
        best = scores[rows]
        if 0 < k < len(rows):
            top = best >= np.partition(best, len(best) - k)[len(best) - k]
            rows, best = rows[top], best[top]
        order = np.lexsort((self.ranks[rows], -best))[:k]
        return rows[order], best[order]


def coded_lengths(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return lengths as Lucene's one-byte code stores them: exact below 40, then four significant bits above 24.

    >>> coded_lengths(np.array([7, 39, 40, 41, 57, 1000])).tolist()
    [7, 39, 40, 40, 56, 984]
    """
    rest = np.maximum(lengths - 24, 1)
    shift = np.maximum(np.frexp(rest.astype(np.float64))[1] - 4, 0)
    return np.where(lengths < 40, lengths, 24 + ((rest >> shift) << shift))


def length_weights(lengths: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return inv(d), float32 (N,), for document lengths (N,) in terms."""
    if not lengths.any():  # no postings, so the weights are never used
        return np.ones(len(lengths), np.float32)
    average = np.float32(lengths.sum() / len(lengths))
    coded = coded_lengths(lengths).astype(np.float32)
    return np.float32(1) / (K1 * ((np.float32(1) - B) + B * coded / average))


def ranks_of(ids: Sequence[str]) -> NDArray[np.int32]:
    """Return int32 (N,): the rank of each id among the sorted ids."""
    ranks = np.empty(len(ids), np.int32)
    ranks[sorted(range(len(ids)), key=ids.__getitem__)] = np.arange(len(ids), dtype=np.int32)
    return ranks


def build_index(documents: Iterable[str], ids: Sequence[str]) -> BM25:
    """Index lower-case documents in memory, in one pass over them.

    Args:
        documents: texts, as many as ``ids``.
        ids: unique; their order breaks ties.

    Raises:
        ValueError: the two differ in number.
    """
    counter = PostingCounter()
    for document in documents:
        counter.add(document)
    counter.flush()
    blocks = counter.blocks
    if len(counter) != len(ids):
        raise ValueError(f"{len(counter)} documents but {len(ids)} ids")
    starts = starts_of(blocks, len(counter.numbers))
    rows, weights = np.empty(int(starts[-1]), np.int32), np.empty(int(starts[-1]), np.float32)
    place_postings(blocks, starts, length_weights(counter.lengths()), rows, weights)
    return BM25(counter.numbers, starts, rows, weights, ranks_of(ids))
