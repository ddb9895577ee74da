"""Exact search is NumPy's brute force in float64, for any batch, block and thread."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from creditflow.envs.errors import DataError
from creditflow.envs.text.vectors import exact
from creditflow.envs.text.vectors.exact import best_rows


def brute_force(query: NDArray[np.float32], vectors: NDArray[np.float32], k: int) -> list[int]:
    scores = [sum(a * b for a, b in zip(query.tolist(), row.tolist(), strict=True)) for row in vectors]
    return sorted(range(len(vectors)), key=lambda row: (-scores[row], row))[:k]


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_it_is_brute_force(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    rows, dimension = data.draw(st.integers(1, 60)), data.draw(st.integers(1, 9))
    # eighths: their products and sums are exact, so equal scores are ties for both
    vectors = (rng.integers(-4, 5, (rows, dimension)) / 8).astype(np.float32)
    queries = (rng.integers(-4, 5, (data.draw(st.integers(1, 5)), dimension)) / 8).astype(np.float32)
    k, threads = data.draw(st.integers(1, 70)), data.draw(st.integers(1, 3))
    found = best_rows(queries, vectors, k, threads)
    for query, (best, scores) in zip(queries, found, strict=True):
        assert best.tolist() == brute_force(query, vectors, k)
        assert scores.tolist() == [float(query @ vectors[row]) for row in best]


def noisy(seed: int, rows: int, dimension: int) -> NDArray[np.float32]:
    vectors = np.random.default_rng(seed).standard_normal((rows, dimension)).astype(np.float32)
    vectors[rows // 2 :] = vectors[: rows - rows // 2] * (1 + np.float32(2**-22))  # nearer than float32's sums can tell
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def test_batch_block_and_threads_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, queries = noisy(1, 3_000, 97), noisy(2, 40, 97)
    whole = best_rows(queries, vectors, 10)
    for block, threads in ((13, 1), (64, 3), (977, 2), (5_000, 4)):
        monkeypatch.setattr(exact, "BLOCK", block)
        again = best_rows(queries, vectors, 10, threads)
        alone = [best_rows(query[None], vectors, 10)[0] for query in queries[:5]]
        for expected, found in [*zip(whole, again, strict=True), *zip(whole[:5], alone, strict=True)]:
            assert np.array_equal(expected[0], found[0])
            assert np.array_equal(expected[1], found[1])


def test_float64_orders_what_float32_cannot() -> None:
    vectors, queries = noisy(3, 800, 256), noisy(4, 20, 256)
    exact_scores = queries.astype(np.float64) @ vectors.astype(np.float64).T
    for query, (best, _) in enumerate(best_rows(queries, vectors, 30)):
        own = exact_scores[query][best]
        assert (np.diff(own) <= 1e-15).all()
        assert own[-1] >= np.sort(exact_scores[query])[-30] - 1e-15


@pytest.mark.parametrize("block", [4_096, 50, 3])
def test_rows_that_float32_cannot_tell_apart_are_told_apart(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that differ in last bits: their float32 scores are in a random order, in a block and from block to block."""
    monkeypatch.setattr(exact, "BLOCK", block)
    rng = np.random.default_rng(7)
    for _ in range(10):
        base, query = rng.standard_normal((2, 128)).astype(np.float32)
        vectors = np.repeat(base[None], 300, axis=0)
        changed = rng.random(vectors.shape) < 0.05
        vectors[changed] = np.nextafter(vectors[changed], np.float32(9))
        scores = np.array(
            [math.fsum(a * b for a, b in zip(query.tolist(), row, strict=True)) for row in vectors.tolist()]
        )
        for k in (1, 4):
            [(best, _)] = best_rows(query[None], vectors, k)
            assert scores[best].tolist() == pytest.approx(np.sort(scores)[::-1][:k], rel=0, abs=1e-14)


def test_a_short_list_is_the_beginning_of_a_long_one() -> None:
    vectors, queries = noisy(5, 500, 16), noisy(6, 3, 16)
    long = best_rows(queries, vectors, 50)
    for k in (1, 7, 49):
        for (rows, _), (more, _) in zip(best_rows(queries, vectors, k), long, strict=True):
            assert rows.tolist() == more[:k].tolist()


def test_no_rows_wanted_and_no_queries() -> None:
    vectors = np.eye(3, dtype=np.float32)
    assert [len(rows) for rows, _ in best_rows(np.ones((2, 3), np.float32), vectors, 0)] == [0, 0]
    assert best_rows(np.ones((0, 3), np.float32), vectors, 2) == []


@pytest.mark.parametrize(
    ("queries", "vectors", "message"),
    [
        (np.ones((1, 4)), np.ones((2, 3)), "encoders differ"),
        (np.array([[1.0, np.nan, 0]]), np.ones((2, 3)), "a query contains a non-finite value"),
        (np.ones((1, 3)), np.array([[1.0, np.inf, 0]]), "contains non-finite values"),
        (np.ones((1, 3)), np.full((2, 3), 3e38), "too large to multiply"),
    ],
)
def test_what_cannot_be_compared_is_an_error(queries: NDArray[Any], vectors: NDArray[Any], message: str) -> None:
    with pytest.raises(DataError, match=message), np.errstate(over="ignore"):
        best_rows(queries.astype(np.float32), vectors.astype(np.float32), 1)
