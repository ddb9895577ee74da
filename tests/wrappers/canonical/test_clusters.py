"""Leader clusters: the result of comparing all pairs, whatever the order of the items."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.envs.errors import ConfigError
from creditflow.wrappers.canonical.merge import leader_clusters

THRESHOLDS = st.sampled_from([0.3, 0.6, 0.8, 0.9, 0.95, 1.0])


def unit(matrix):
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    return np.divide(matrix, lengths, out=np.zeros_like(matrix), where=lengths > 0)


def all_pairs(vectors, order, threshold):
    """The definition: join the most similar leader so far, the first one among equals, else lead."""
    leader = list(range(len(vectors)))
    leaders: list[int] = []
    for i in order:
        scores = [round(float(vectors[i] @ vectors[j]), 9) for j in leaders]
        best = max(range(len(scores)), key=lambda n: (scores[n], -n), default=-1)
        if best >= 0 and scores[best] >= threshold - 1e-9:
            leader[i] = leaders[best]
        else:
            leaders.append(i)
    return leader


@st.composite
def counts(draw):
    """Rows of few small counts, many of them near each other."""
    seed, n, d = draw(st.integers(0, 10**6)), draw(st.integers(1, 30)), draw(st.integers(1, 12))
    rng = np.random.default_rng(seed)
    prototypes = rng.integers(0, 3, (draw(st.integers(1, 4)), d)) * (rng.random(d) < 0.7)
    return (prototypes[rng.integers(len(prototypes), size=n)] + (rng.random((n, d)) < 0.1)).astype(float)


@settings(max_examples=100)
@given(counts(), THRESHOLDS, st.integers(0, 99))
def test_dense_clusters_are_those_of_all_pairs(matrix, threshold, seed):
    rng = np.random.default_rng(seed)
    vectors = unit(np.hstack([matrix - matrix.mean(), rng.normal(0, 0.1, (len(matrix), 20))]))
    order = rng.permutation(len(vectors)).tolist()
    found = leader_clusters(vectors.astype(np.float32), order, threshold)
    assert found.tolist() == all_pairs(vectors.astype(np.float32).astype(float), order, threshold)


@given(counts(), THRESHOLDS)
def test_members_reach_the_threshold_with_their_leader_and_leaders_do_not_with_each_other(matrix, threshold):
    vectors = unit(np.sqrt(matrix))
    found = leader_clusters(vectors, range(len(vectors)), threshold)
    members = np.flatnonzero(found != np.arange(len(vectors)))
    exact = np.einsum("ij,ij->i", vectors[members], vectors[found[members]])
    assert (exact >= threshold - 2e-9).all()
    leaders = vectors[found == np.arange(len(vectors))]
    assert (np.triu(leaders @ leaders.T, 1) < threshold).all()


@pytest.mark.parametrize("threshold", [0.0, -0.5, 1.5, float("nan")])
def test_the_threshold_is_checked(threshold):
    with pytest.raises(ConfigError, match=r"\(0, 1\]"):
        leader_clusters(np.ones((1, 1), np.float32), [0], threshold)


def test_no_states_make_no_clusters_and_rows_of_zeros_are_similar_to_nothing():
    assert len(leader_clusters(np.zeros((0, 4), np.float32), [], 0.9)) == 0
    assert leader_clusters(np.zeros((2, 4), np.float32), [0, 1], 0.9).tolist() == [0, 1]
