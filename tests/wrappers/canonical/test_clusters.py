"""Leader clusters: the result of comparing all pairs, independent of order, with a fraction of the comparisons."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.envs.errors import ConfigError
from creditflow.wrappers.canonical.embedding import HashingEmbedder, SparseVectors
from creditflow.wrappers.canonical.merge import leader_clusters

THRESHOLDS = st.sampled_from([0.3, 0.6, 0.8, 0.9, 0.95, 1.0])


def sparse(matrix):
    """A dense matrix with rows of length 1 or 0 as sparse vectors; features get numbers far apart."""
    rows, columns = np.nonzero(matrix)
    sizes = np.bincount(rows, minlength=len(matrix))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return SparseVectors((columns * 10**15).astype(np.uint64), matrix[rows, columns], offsets)


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


@settings(max_examples=150)
@given(counts(), THRESHOLDS, st.integers(0, 99))
def test_sparse_clusters_are_those_of_all_pairs(matrix, threshold, seed):
    vectors = unit(np.sqrt(matrix))
    order = np.random.default_rng(seed).permutation(len(vectors)).tolist()
    found = leader_clusters(sparse(vectors), order, threshold)
    assert found.leader.tolist() == all_pairs(vectors, order, threshold)


@settings(max_examples=100)
@given(counts(), THRESHOLDS, st.integers(0, 99))
def test_dense_clusters_are_those_of_all_pairs(matrix, threshold, seed):
    rng = np.random.default_rng(seed)
    vectors = unit(np.hstack([matrix - matrix.mean(), rng.normal(0, 0.1, (len(matrix), 20))]))
    order = rng.permutation(len(vectors)).tolist()
    found = leader_clusters(vectors.astype(np.float32), order, threshold)
    assert found.leader.tolist() == all_pairs(vectors.astype(np.float32).astype(float), order, threshold)


@given(counts(), THRESHOLDS)
def test_members_reach_the_threshold_with_their_leader_and_leaders_do_not_with_each_other(matrix, threshold):
    vectors = unit(np.sqrt(matrix))
    found = leader_clusters(sparse(vectors), range(len(vectors)), threshold)
    members = np.flatnonzero(found.leader != np.arange(len(vectors)))
    exact = np.einsum("ij,ij->i", vectors[members], vectors[found.leader[members]])
    np.testing.assert_allclose(found.similarity[members], exact, atol=1e-8)
    assert (exact >= threshold - 2e-9).all()
    leaders = vectors[found.leader == np.arange(len(vectors))]
    assert (np.triu(leaders @ leaders.T, 1) < threshold).all()


def noisy_states(n, copies, seed=0):
    """n texts: n / copies true states, each in ``copies`` versions with two noise lines inserted."""
    rng = np.random.default_rng(seed)
    noise = [f"Sponsored offer number {i}, only today." for i in range(12)]
    texts = []
    for state in range(n // copies):
        page = [f"Back to Search of item{state}", *(f"Button {' '.join(rng.choice(VOCABULARY, 5))}" for _ in range(10))]
        for _ in range(copies):
            shown = list(page)
            for line in rng.choice(len(noise), 2):
                shown.insert(int(rng.integers(len(shown) + 1)), noise[line])
            texts.append("\n".join(shown))
    return sorted(set(texts), key=lambda text: (len(text), text))


VOCABULARY = np.array([f"{a}{b}{c}" for a in ("bal", "kor", "min", "tel", "sur") for b in ("a", "ei", "o", "u")
                       for c in ("rin", "dek", "mo", "lath", "ster", "vix", "nor", "quel")])  # fmt: skip


def cost(n, copies, threshold=0.75):
    texts = noisy_states(n, copies)
    found = leader_clusters(HashingEmbedder().embed(texts), range(len(texts)), threshold)
    return found, len(texts)


@pytest.mark.slow
def test_ten_thousand_states_need_a_thousandth_of_all_comparisons():
    found, n = cost(10_000, 20)
    assert n > 9_000
    assert found.comparisons < n * (n - 1) // 2 // 1000


def test_comparisons_are_linear_in_the_number_of_states():
    (small, n), (large, m) = cost(1_000, 10), cost(4_000, 10)
    assert large.comparisons / m <= 1.5 * small.comparisons / n  # four times the states, sixteen times the pairs


def test_many_versions_of_one_state_are_each_compared_with_its_leader_only():
    found, n = cost(3_000, 3_000)
    assert len(set(found.leader.tolist())) == 1
    assert found.comparisons == n - 1


@pytest.mark.parametrize("threshold", [0.0, -0.5, 1.5, float("nan")])
def test_the_threshold_is_checked(threshold):
    with pytest.raises(ConfigError, match=r"\(0, 1\]"):
        leader_clusters(HashingEmbedder().embed(["a"]), [0], threshold)


def test_no_states_make_no_clusters():
    assert len(leader_clusters(HashingEmbedder().embed([]), [], 0.9).leader) == 0
    assert len(leader_clusters(np.zeros((0, 4), np.float32), [], 0.9).leader) == 0
    assert leader_clusters(np.zeros((2, 4), np.float32), [0, 1], 0.9).leader.tolist() == [0, 1]
