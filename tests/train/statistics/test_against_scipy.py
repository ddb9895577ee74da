"""Every function of train/statistics agrees with scipy, where scipy is installed, and has the properties that it must have."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.errors import ConfigError
from creditflow.train import statistics

try:
    import scipy.stats as reference
except ImportError:  # the tiers without the dev extra
    reference = None

scipy = pytest.mark.skipif(reference is None, reason="scipy is not installed: extra [dev]")

NUMBERS = st.one_of(st.integers(-3, 3).map(float), st.floats(-1e6, 1e6).map(lambda x: round(x, 3)))
COLUMN = st.lists(NUMBERS, min_size=1, max_size=30)
PAIRS = st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=30)
SCORES = st.lists(st.tuples(NUMBERS, st.booleans()), min_size=1, max_size=30)


@scipy
@given(trials=st.integers(1, 500), rate=st.floats(0, 1))
def test_wilsons_interval_is_scipys(trials, rate):
    successes = round(rate * trials)
    expected = reference.binomtest(successes, trials).proportion_ci(method="wilson")
    assert statistics.wilson_interval(successes, trials) == pytest.approx((expected.low, expected.high), abs=1e-14)


@scipy
@given(values=st.lists(NUMBERS, min_size=2, max_size=30))
def test_the_normal_interval_is_scipys(values):
    x = np.array(values)
    half = reference.norm.ppf(0.975) * reference.sem(x)
    assert statistics.normal_interval(x) == pytest.approx((x.mean() - half, x.mean() + half), rel=1e-9, abs=1e-9)


@scipy
@given(values=COLUMN)
def test_ranks_are_scipys(values):
    assert statistics.ranks(values).tolist() == reference.rankdata(values).tolist()


@scipy
@pytest.mark.parametrize("name", ["pearson", "spearman"])
@given(pairs=PAIRS)
def test_correlations_are_scipys_and_nan_where_undefined(name, pairs):
    x, y = (np.array(column) for column in zip(*pairs, strict=True))
    got = getattr(statistics, name)(x, y)
    if len(pairs) < 2 or not np.ptp(x) or not np.ptp(y):
        assert math.isnan(got)
    else:
        assert got == pytest.approx(getattr(reference, f"{name}r")(x, y).statistic, abs=1e-9)


@scipy
@given(samples=SCORES)
def test_auroc_is_the_mann_whitney_u_per_pair(samples):
    scores, positive = np.array([s for s, _ in samples]), np.array([p for _, p in samples])
    n, m = int(positive.sum()), int((~positive).sum())
    got = statistics.auroc(scores, positive)
    if not n or not m:
        assert math.isnan(got)
    else:
        expected = reference.mannwhitneyu(scores[positive], scores[~positive]).statistic / (n * m)
        assert got == pytest.approx(expected, abs=1e-12)


@scipy
@given(more=st.integers(0, 300), less=st.integers(0, 300))
def test_the_sign_test_is_scipys_binomial_test(more, less):
    expected = reference.binomtest(more, more + less).pvalue if more + less else 1.0
    assert statistics.sign_test(more, less) == pytest.approx(expected, rel=1e-9)


@scipy
@pytest.mark.parametrize("seed", range(4))
def test_the_bootstrap_of_clusters_of_one_is_scipys(seed):
    """Both draw single entries; 4,000 resamples leave the ends less than a fifth of a standard error apart."""
    x = np.random.default_rng(seed).normal(size=40)
    expected = reference.bootstrap(
        (x,), np.mean, n_resamples=4000, method="percentile", random_state=np.random.default_rng(1)
    ).confidence_interval
    got = statistics.cluster_bootstrap(
        list(np.arange(40)[:, None]), lambda at: float(x[at].mean()), n_resamples=4000, rng=np.random.default_rng(1)
    )
    assert got == pytest.approx((expected.low, expected.high), abs=0.2 * x.std() / math.sqrt(40))


@given(samples=SCORES)
def test_auroc_counts_pairs_in_order_and_ties_half(samples):
    scores, positive = np.array([s for s, _ in samples]), np.array([p for _, p in samples])
    pairs = [(a > b) + 0.5 * (a == b) for a in scores[positive] for b in scores[~positive]]
    got = statistics.auroc(scores, positive)
    assert math.isnan(got) if not pairs else got == pytest.approx(np.mean(pairs))


@given(value=st.floats(1e-3, 1e3), n=st.integers(1, 40), scale=st.floats(0.1, 10.0))
def test_a_constant_correlates_with_nothing_though_its_mean_is_rounded(value, n, scale):
    assert math.isnan(statistics.pearson(np.full(n, value), scale * np.arange(n)))


def test_ranks_and_their_correlation():
    np.testing.assert_allclose(statistics.ranks([3.0, 1.0, 3.0, 2.0]), [3.5, 1, 3.5, 2])
    assert statistics.spearman([1.0, 2, 3], [10.0, 20, 15]) == pytest.approx(0.5)
    assert math.isnan(statistics.spearman([1.0, 1.0], [1.0, 2.0]))


def test_the_bootstrap_draws_whole_clusters():
    x = np.repeat([0.0, 1.0], 50)
    clusters = [np.arange(50), np.arange(50, 100)]
    found = statistics.cluster_bootstrap(
        clusters, lambda at: float(x[at].mean()), n_resamples=200, rng=np.random.default_rng(0)
    )
    assert (found.low, found.high) == (0.0, 1.0)  # single entries would stay near one half


def test_resamples_without_a_value_are_left_out():
    assert statistics.percentile_interval([math.nan, 1.0, 1.0]) == (1.0, 1.0)
    assert all(map(math.isnan, statistics.percentile_interval([math.nan])))


def test_an_interval_of_no_trials_is_rejected_and_that_of_one_number_is_infinite():
    with pytest.raises(ConfigError, match="at least one trial"):
        statistics.wilson_interval(0, 0)
    assert statistics.normal_interval([0.5]) == (-math.inf, math.inf)


@scipy
@given(t=st.floats(0.0, 1e4), freedom=st.floats(0.5, 1e4))
def test_the_tails_of_t_are_scipys(t, freedom):
    assert statistics.t_tails(t, freedom) == pytest.approx(2.0 * reference.t.sf(t, freedom), rel=1e-9, abs=1e-14)
    assert statistics.t_tails(-t, freedom) == statistics.t_tails(t, freedom)


@scipy
@given(freedom=st.floats(1.0, 1e5), tail=st.floats(1e-7, 0.5))
def test_the_quantiles_of_t_are_scipys(freedom, tail):
    got = statistics.t_quantile(freedom, 1.0 - tail)
    assert got == pytest.approx(reference.t.isf(tail, freedom), rel=1e-7, abs=1e-9)


@pytest.mark.parametrize(("freedom", "probability"), [(0.5, 0.975), (math.nan, 0.975), (5.0, 0.4), (5.0, 1.0)])
def test_quantiles_out_of_range_are_rejected(freedom, probability):
    with pytest.raises(ConfigError, match="at least 1 degree of freedom"):
        statistics.t_quantile(freedom, probability)


@scipy
@given(values=st.lists(NUMBERS, min_size=2, max_size=30))
def test_the_mean_of_one_seed_is_tested_as_scipy_tests_one_sample(values):
    x = np.array(values)
    found = statistics.crossed_mean(x[None])
    if np.ptp(x) > 1e-6:
        expected = reference.ttest_1samp(x, 0.0)
        assert found.p_value == pytest.approx(expected.pvalue, rel=1e-6, abs=1e-12)
        assert found.interval == pytest.approx(tuple(expected.confidence_interval()), rel=1e-6, abs=1e-6)


@scipy
@given(p=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=12))
def test_holm_lies_between_bonferroni_and_benjamini_hochberg(p):
    """Bonferroni ≥ Holm ≥ Benjamini and Hochberg, in adjusted p-values."""
    adjusted = np.array(statistics.holm(p))
    assert (adjusted <= np.minimum(len(p) * np.array(p), 1.0) + 1e-12).all()
    assert (adjusted >= reference.false_discovery_control(p) - 1e-12).all()
