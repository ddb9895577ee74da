"""Agreement, intervals and tests of ``train/statistics`` against scipy, and the coverage of the intervals of evaluations."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
import scipy.stats as reference
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.errors import ConfigError, MissingExtraError
from creditflow.train import statistics
from creditflow.train.rollout.evaluation import clustered_interval

NUMBERS = st.one_of(st.integers(-3, 3).map(float), st.floats(-1e6, 1e6).map(lambda x: round(x, 3)))
PAIRS = st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=30)
SCORES = st.lists(st.tuples(NUMBERS, st.booleans()), min_size=1, max_size=30)
N = 4000  # simulated evaluations; a coverage has the binomial error .0034


@given(trials=st.integers(1, 500), rate=st.floats(0, 1))
def test_the_interval_of_a_rate_is_scipys(trials, rate):
    successes = round(rate * trials)
    expected = reference.binomtest(successes, trials).proportion_ci(method="exact")
    assert statistics.rate_interval(successes, trials) == pytest.approx((expected.low, expected.high), abs=1e-9)


@given(values=st.lists(NUMBERS, min_size=2, max_size=30))
def test_the_interval_of_normal_numbers_is_scipys(values):
    x = np.array(values)
    half = reference.t.ppf(0.975, len(x) - 1) * reference.sem(x)
    assert statistics.normal_interval(x) == pytest.approx((x.mean() - half, x.mean() + half), rel=1e-9, abs=1e-9)


def test_an_interval_of_no_trials_is_rejected_and_that_of_one_number_is_infinite():
    with pytest.raises(ConfigError, match="at least one trial"):
        statistics.rate_interval(0, 0)
    assert statistics.normal_interval([0.5]) == (-math.inf, math.inf)


@pytest.mark.parametrize("tasks", [2, 3, 5, 10])
def test_the_interval_of_a_metric_covers_its_mean_however_few_the_tasks(tasks):
    rng = np.random.default_rng(tasks)
    found = [statistics.normal_interval(x) for x in rng.normal(size=(N, tasks))]
    assert np.mean([low <= 0.0 <= high for low, high in found]) == pytest.approx(0.95, abs=0.011)


@pytest.mark.parametrize("samples", [1, 4])
@pytest.mark.parametrize(("a", "b"), [(0.3, 0.7), (2.0, 2.0), (0.05, 0.95), (20.0, 20.0), (0.7, 0.3), (2.0, 38.0)])
@pytest.mark.parametrize("tasks", [2, 3, 5, 10, 20, 60])
def test_the_interval_of_a_success_rate_covers_it_however_few_the_tasks(tasks, a, b, samples):
    """Success rates of tasks come from Beta(a, b), most of them near 0 or 1 for small a and b; each is sampled a few times.

    With sixteen samples of tasks of which nineteen in twenty fail, ten tasks cover .88: no task that was seen shows the others.
    """
    rng = np.random.default_rng([tasks, samples])
    rates = rng.binomial(samples, rng.beta(a, b, (N // 4, tasks))) / samples
    found = [clustered_interval(x) for x in rates]
    assert np.mean([low <= a / (a + b) <= high for low, high in found]) >= 0.95 - 3 * 0.0069


@pytest.mark.parametrize("name", ["pearson", "spearman"])
@given(pairs=PAIRS)
def test_correlations_are_scipys_and_nan_where_undefined(name, pairs):
    x, y = (np.array(column) for column in zip(*pairs, strict=True))
    got = getattr(statistics, name)(x, y)
    if len(pairs) < 2 or not np.ptp(x) or not np.ptp(y):
        assert math.isnan(got)
    else:
        assert got == pytest.approx(getattr(reference, f"{name}r")(x, y).statistic, abs=1e-9)


@given(value=st.floats(1e-3, 1e3), n=st.integers(1, 40), scale=st.floats(0.1, 10.0))
def test_a_constant_correlates_with_nothing_though_its_mean_is_rounded(value, n, scale):
    assert math.isnan(statistics.pearson(np.full(n, value), scale * np.arange(n)))


@given(samples=SCORES)
def test_auroc_is_the_mann_whitney_u_per_pair(samples):
    scores, positive = np.array([s for s, _ in samples]), np.array([p for _, p in samples])
    n, m = int(positive.sum()), int((~positive).sum())
    got = statistics.auroc(scores, positive)
    if not n or not m:
        assert math.isnan(got)
    else:
        expected = reference.mannwhitneyu(scores[positive], scores[~positive], method="asymptotic").statistic / (n * m)
        assert got == pytest.approx(expected, abs=1e-12)


@given(values=st.lists(NUMBERS, min_size=2, max_size=30))
def test_the_mean_of_one_seed_is_tested_as_scipy_tests_one_sample(values):
    x = np.array(values)
    found = statistics.crossed_mean(x[None])
    if np.ptp(x) > 1e-6:
        expected = reference.ttest_1samp(x, 0.0)
        assert found.p_value == pytest.approx(expected.pvalue, rel=1e-6, abs=1e-12)
        assert found.interval == pytest.approx(tuple(expected.confidence_interval()), rel=1e-6, abs=1e-6)


@given(p=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=12))
def test_holm_lies_between_bonferroni_and_benjamini_hochberg(p):
    """Bonferroni ≥ Holm ≥ Benjamini and Hochberg, in adjusted p-values."""
    adjusted = np.array(statistics.holm(p))
    assert (adjusted <= np.minimum(len(p) * np.array(p), 1.0) + 1e-12).all()
    assert (adjusted >= reference.false_discovery_control(p) - 1e-12).all()


def test_without_scipy_the_extra_that_brings_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("scipy", "scipy.special", "scipy.stats"):
        monkeypatch.setitem(sys.modules, name, None)
    for compute in (
        lambda: statistics.normal_interval([0.0, 1.0]),
        lambda: statistics.rate_interval(1, 2),
        lambda: statistics.spearman([1.0, 2.0], [1.0, 2.0]),
    ):
        with pytest.raises(MissingExtraError, match=r"scipy is not installed.*bench"):
            compute()
