"""The search engine's scores and order."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.webshop.bm25 import build_index, encode_length

WORDS = ("apple", "pear", "plum", "fig", "kiwi", "lime")
DOCUMENTS = st.lists(st.lists(st.sampled_from(WORDS), max_size=12), min_size=1, max_size=12)


def plain_score(query, document, documents):
    """The formula in float64."""
    n, average = len(documents), sum(map(len, documents)) / len(documents)
    total = 0.0
    for word in query:
        df = sum(word in other for other in documents)
        if df:
            weight = math.log(1 + (n - df + 0.5) / (df + 0.5))
            inverse = 1 / (0.9 * (1 - 0.4 + 0.4 * len(document) / average))
            total += weight - weight / (1 + document.count(word) * inverse)
    return total


@given(DOCUMENTS, st.lists(st.sampled_from(WORDS), min_size=1, max_size=4))
def test_scores_are_the_formulas_and_documents_without_a_term_are_left_out(documents, query):
    if not any(documents):
        return
    index = build_index((" ".join(d) for d in documents), [f"{i:03d}" for i in range(len(documents))])
    rows, scores = index.search(" ".join(query))
    expected = {i: plain_score(query, d, documents) for i, d in enumerate(documents) if set(d) & set(query)}
    assert dict(zip(rows.tolist(), scores.tolist(), strict=True)) == pytest.approx(expected, rel=1e-5)
    assert (np.diff(scores) <= 0).all()


def test_equal_scores_are_ordered_by_id_and_the_best_k_are_kept():
    ids = [f"{i:03d}" for i in reversed(range(100))]
    rows, _ = build_index(["same words"] * 100, ids).search("words", 7)
    assert [ids[row] for row in rows] == [f"{i:03d}" for i in range(7)]


@pytest.mark.parametrize("query", ["", "   ", "the of and", "!!!", "unknownword"])
def test_a_query_without_known_terms_finds_nothing(query):
    rows, scores = build_index(["apple pear"], ["A"]).search(query)
    assert len(rows) == len(scores) == 0


def test_the_length_code_is_monotone_exact_below_forty_and_never_more_than_an_eighth_off():
    coded = [encode_length(n) for n in range(10_000)]
    assert coded[:40] == list(range(40))
    assert coded == sorted(coded)
    assert all(0.875 * n <= c <= n for n, c in enumerate(coded))


def test_documents_may_be_empty():
    rows, _ = build_index(["", "apple", ""], ["A", "B", "C"]).search("apple")
    assert rows.tolist() == [1]
