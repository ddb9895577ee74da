"""The rows with the largest inner products, exactly.

BLAS sums in an order that depends on the shapes it is given, so its float32 scores of one pair differ in the last bits from
call to call. They differ from the true score by at most γ ‖q‖ ‖x‖ with γ = d u / (1 − d u), u = 2⁻²⁴, for any order of the
sums (Higham 2002, Accuracy and Stability of Numerical Algorithms, §3.1). So every row whose score comes within two such bounds of
the k-th best is scored again in float64, each pair by itself, and these scores rank: (score descending, row ascending).
The result depends on query and vectors alone, not on batch, block or threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import DataError

__all__ = ["Best", "best_rows", "checked_queries", "ordered", "scores_of"]

Best = tuple[NDArray[np.int64], NDArray[np.float32]]
"""Rows (n,) and scores (n,), best first."""

BLOCK: Final = 4_096  # rows decoded at a time: 12 MB of 768 numbers, which stays near the processor
_UNIT: Final = 2.0**-24


def checked_queries(queries: NDArray[np.float32], dimension: int) -> NDArray[np.float32]:
    """The queries as contiguous float32 (q, d).

    Raises:
        DataError: another dimension, or a value that is not finite.
    """
    if queries.ndim != 2 or queries.shape[1] != dimension:
        raise DataError(
            f"queries have shape {queries.shape}, but the vectors have {dimension} numbers: their encoders differ"
        )
    if not np.isfinite(queries).all():
        raise DataError("a query contains a non-finite value")
    return np.ascontiguousarray(queries, np.float32)


def scores_of(query: NDArray[np.float32], vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """float64 (n,): inner products, each pair summed by itself and in one order."""
    products = vectors.astype(np.float64)
    products *= query
    scores: NDArray[np.float64] = products.sum(axis=1)
    return scores


def ordered(rows: NDArray[np.int64], scores: NDArray[np.float64], k: int) -> Best:
    """The best ``k``: by score, then by row."""
    order = np.lexsort((rows, -scores))[:k]
    return rows[order], scores[order].astype(np.float32)


def best_rows(queries: NDArray[np.float32], vectors: NDArray[Any], k: int, threads: int = 1) -> list[Best]:
    """The best ``k`` rows for each query, by inner product.

    Args:
        queries: float32 (q, d).
        vectors: float32 or float16 (n, d), in memory or memory-mapped.
        k: rows per query.
        threads: threads that scan blocks of rows; BLAS may use more of its own.

    Raises:
        DataError: the queries have another dimension, or a value is not finite.
    """
    queries = checked_queries(queries, vectors.shape[1])
    k = min(k, len(vectors))
    if k <= 0 or not len(queries):
        return [(np.empty(0, np.int64), np.empty(0, np.float32)) for _ in queries]
    starts = range(0, len(vectors), BLOCK)
    scans = [_Scan(queries, vectors, k) for _ in range(min(threads, len(starts)))]
    with ThreadPoolExecutor(len(scans), "vectors") as pool:
        list(pool.map(lambda number: scans[number].run(starts[number :: len(scans)]), range(len(scans))))
    return [
        ordered(np.concatenate([scan.rows[i] for scan in scans]), np.concatenate([scan.exact[i] for scan in scans]), k)
        for i in range(len(queries))
    ]


class _Scan:
    """The best rows over some blocks, with float64 scores.

    Args:
        queries: float32 (q, d).
        vectors: the rows, (n, d).
        k: rows per query that must be among those kept.
    """

    def __init__(self, queries: NDArray[np.float32], vectors: NDArray[Any], k: int) -> None:
        self.queries, self.vectors, self.k = queries, vectors, k
        self.rows = [np.empty(0, np.int64) for _ in queries]
        self.exact = [np.empty(0, np.float64) for _ in queries]
        self._floor = np.full(len(queries), -np.inf)  # exact score of the k-th best so far
        self._norms = np.sqrt((queries.astype(np.float64) ** 2).sum(axis=1))

    def run(self, starts: Sequence[int]) -> None:
        """Scan the blocks that begin with these rows.

        Raises:
            DataError: a value that is not finite, which only damage or another writer leaves.
        """
        for start in starts:
            rows = self.vectors[start : start + BLOCK].astype(np.float32)
            if not np.isfinite(rows.sum(dtype=np.float64)):
                raise DataError("the index contains non-finite values; rebuild it")
            for i, chosen in self._candidates(rows):
                self._merge(i, chosen + start, scores_of(self.queries[i], rows[chosen]))

    def _candidates(self, vectors: NDArray[np.float32]) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Queries and positions in a block that may be among the best ``k``."""
        with np.errstate(over="ignore"):  # infinite scores are an error below
            scores = self.queries @ vectors.T
        longest = float(np.sqrt(np.einsum("nd,nd->n", vectors, vectors).max(initial=0))) * (1 + 2.0**-10)
        if not np.isfinite(longest):
            raise DataError("vectors have values too large to multiply; rebuild the index")
        size = vectors.shape[1] * _UNIT
        error = size / (1 - size) * self._norms * longest + np.finfo(np.float32).tiny
        count = len(vectors)
        if count > self.k:  # the block's own k-th best is a floor too
            kth = np.partition(scores, count - self.k, axis=1)[:, count - self.k]
            floor = np.maximum(self._floor - error, kth - 2 * error)
        else:
            floor = self._floor - error
        bar = np.nextafter(floor.astype(np.float32), np.float32(-np.inf))
        for i in np.flatnonzero(scores.max(axis=1) >= bar).tolist():
            yield i, np.flatnonzero(scores[i] >= bar[i])

    def _merge(self, i: int, rows: NDArray[np.int64], exact: NDArray[np.float64]) -> None:
        rows, exact = np.concatenate([self.rows[i], rows]), np.concatenate([self.exact[i], exact])
        order = np.lexsort((rows, -exact))[: self.k]
        self.rows[i], self.exact[i] = rows[order], exact[order]
        if len(order) == self.k:
            self._floor[i] = self.exact[i][-1]
