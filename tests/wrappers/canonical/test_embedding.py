"""Hashed n-gram vectors: their inner product, and equality on all machines."""

from __future__ import annotations

import re
from collections import Counter
from hashlib import blake2b
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.errors import ConfigError
from creditflow.wrappers.canonical.embedding import HashingEmbedder, SparseVectors

WORDS = st.lists(st.sampled_from(["red", "mug", "on", "the", "shelf", "12", ","]), max_size=12).map(" ".join)


def similarity(vectors: SparseVectors, i: int = 0, j: int = 1) -> float:
    rows = [
        dict(zip(vectors.feature[a:b].tolist(), vectors.weight[a:b].tolist(), strict=True))
        for a, b in pairwise(vectors.offsets.tolist())
    ]
    return float(sum(weight * rows[j].get(feature, 0.0) for feature, weight in rows[i].items()))


def bhattacharyya(x: Counter, y: Counter) -> float:
    total = (sum(x.values()) * sum(y.values())) ** 0.5
    return sum((x[gram] * y[gram]) ** 0.5 for gram in x) / total if total else 0.0


@given(WORDS, WORDS)
def test_similarity_is_the_bhattacharyya_coefficient_of_the_n_grams(one, other):
    def grams(text):
        words = text.split()
        return Counter([*words, *pairwise(words)])

    vectors = HashingEmbedder(words=2, characters=0).embed([one, other])
    assert similarity(vectors) == pytest.approx(bhattacharyya(grams(one), grams(other)), abs=1e-12)


@given(st.text(max_size=20), st.text(max_size=20))
def test_character_n_grams_cross_word_boundaries(one, other):
    def grams(text):
        shown = " ".join(re.findall(r"\w+|[^\w\s]", text.casefold()))
        return Counter(shown[i : i + 3] for i in range(len(shown) - 2))

    vectors = HashingEmbedder(words=0, characters=3).embed([one, other])
    assert similarity(vectors) == pytest.approx(bhattacharyya(grams(one), grams(other)), abs=1e-12)


def test_case_and_white_space_are_ignored_but_numbers_are_not():
    vectors = HashingEmbedder().embed(["On the  Shelf 12\n", "on the shelf 12", "on the shelf 13"])
    assert similarity(vectors, 0, 1) == pytest.approx(1.0)
    assert similarity(vectors, 0, 2) < 0.9


def test_empty_texts_are_similar_to_nothing_and_any_unicode_is_accepted():
    vectors = HashingEmbedder().embed(["", "\ud800 lone", "汉字没有空格的句子"])
    assert len(vectors) == 3
    assert vectors.offsets[1] == 0
    assert similarity(vectors, 1, 1) == pytest.approx(1.0)
    assert similarity(vectors, 2, 2) == pytest.approx(1.0)
    assert len(HashingEmbedder().embed([])) == 0


def test_vectors_are_the_same_on_every_machine():
    vectors = HashingEmbedder().embed(["You are in a hall. A mug stands on shelf 12.", "Größe 3"])
    pinned = blake2b(vectors.feature.astype("<u8").tobytes(), digest_size=8).hexdigest()
    assert (pinned, len(vectors.weight)) == ("27da9b3a09c8d551", 72)
    assert np.allclose(np.add.reduceat(vectors.weight**2, vectors.offsets[:-1]), 1.0)


@pytest.mark.parametrize("sizes", [(0, 0), (-1, 3), (2, -1)])
def test_n_gram_sizes_are_checked(sizes):
    with pytest.raises(ConfigError, match="n-gram sizes"):
        HashingEmbedder(*sizes)
