"""Planned comparisons: errors of a family, power, and robust summaries, by simulation and against known answers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as t_distribution

from creditflow.train.statistics import (
    ALPHA,
    ClusteredMean,
    contrasts_of,
    crossed_mean,
    detectable_difference,
    holm,
    mean_errors,
    t_quantile,
)


def test_holms_adjustment_of_a_published_example():
    """Four tests at .01, .04, .03, .005 (Wikipedia, Holm–Bonferroni method): two are rejected at .05."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@given(p=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=10), data=st.data())
def test_holm_keeps_the_order_and_never_lowers_a_p_value(p, data):
    order = data.draw(st.permutations(range(len(p))))
    adjusted = holm(p)
    assert [adjusted[i] for i in order] == holm([p[i] for i in order])
    assert all(a >= x for a, x in zip(adjusted, p, strict=True))
    assert sorted(adjusted) == [a for _, a in sorted(zip(p, adjusted, strict=True))]


def test_a_missing_p_value_stays_missing_and_counts_as_a_test():
    adjusted = holm([0.02, math.nan])
    assert adjusted[0] == 0.04
    assert math.isnan(adjusted[1])
    assert holm([]) == []


def test_a_family_of_contrasts_has_a_family_wise_error_rate_of_at_most_alpha():
    """Eight schemes equal to the baseline, paired on 5 seeds × 20 tasks; unadjusted, a third of the studies reject one."""
    rng = np.random.default_rng(0)
    studies, schemes = 1500, 8
    results = (
        rng.normal(size=(studies, schemes + 1, 1, 20))
        + 0.5 * rng.normal(size=(studies, schemes + 1, 5, 1))
        + rng.normal(size=(studies, schemes + 1, 5, 20))
    )
    mean, error, freedom = mean_errors(results[:, 1:] - results[:, :1])
    p = 2.0 * t_distribution.sf(abs(mean / error), freedom)
    wrong = np.mean([min(holm(row)) < ALPHA for row in p])
    assert wrong <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / studies)
    assert np.mean(p.min(axis=1) < ALPHA) > 0.15


@pytest.mark.parametrize(("seeds", "tasks"), [(5, 10), (10, 50)])
def test_the_detectable_difference_is_detected_four_times_in_five(seeds, tasks):
    """Where tasks and seeds both vary; where one mean square is nearly all, the degrees of freedom are its own."""
    rng = np.random.default_rng(0)
    truth = math.sqrt(0.5 / tasks + 0.25 / seeds + 1.0 / (seeds * tasks))
    values = (
        math.sqrt(0.5) * rng.normal(size=(4000, 1, tasks))
        + 0.5 * rng.normal(size=(4000, seeds, 1))
        + rng.normal(size=(4000, seeds, tasks))
    )
    mean, error, freedom = mean_errors(values)
    assert mean.std() == pytest.approx(truth, rel=0.05)
    shift = detectable_difference(truth, float(np.median(freedom)))
    critical = np.array([t_quantile(x) for x in np.arange(1.0, 500.0)])
    found = np.mean((mean + shift) / error > np.interp(freedom, np.arange(1.0, 500.0), critical))
    assert found == pytest.approx(0.8, abs=0.05)


@pytest.mark.parametrize("n", [6, 20, 50])
def test_the_power_of_a_test_over_tasks_alone_is_exact_but_for_the_approximation(n):
    rng = np.random.default_rng(n)
    values = rng.normal(size=(20_000, 1, n))
    mean, error, _ = mean_errors(values)
    shift = detectable_difference(1.0 / math.sqrt(n), n - 1.0)
    assert np.mean((mean + shift) / error > t_quantile(n - 1.0)) == pytest.approx(0.8, abs=0.02)


def test_more_contrasts_need_a_larger_difference():
    results = {f"scheme {i}": crossed_mean(np.random.default_rng(i).normal(size=(5, 20))) for i in range(4)}
    one, four = contrasts_of({"scheme 0": results["scheme 0"]}), contrasts_of(results)
    assert four["scheme 0"].detectable > one["scheme 0"].detectable
    assert one["scheme 0"].p_adjusted == results["scheme 0"].p_value


def test_a_constant_difference_separates_and_none_does_not():
    base = np.random.default_rng(0).normal(size=(4, 30))
    contrasts = contrasts_of({"better": crossed_mean(base + 0.1 - base), "equal": crossed_mean(base - base)})
    assert list(contrasts) == ["better", "equal"]
    assert contrasts["better"].difference.mean == pytest.approx(0.1)
    assert contrasts["better"].separates
    assert not contrasts["equal"].separates
    assert contrasts["equal"].detectable == 0.0


def test_a_single_result_separates_nothing():
    [contrast] = contrasts_of({"a": crossed_mean([[1.0]])}).values()
    assert math.isnan(contrast.p_adjusted)
    assert not contrast.separates


@given(st.lists(st.tuples(st.floats(-1.0, 1.0), st.floats(0.01, 1.0), st.integers(1, 40)), min_size=1, max_size=8))
def test_the_interval_of_a_contrast_excludes_zero_exactly_where_the_adjusted_p_value_is_small(drawn):
    family = contrasts_of(
        {str(i): ClusteredMean(mean, error, float(freedom)) for i, (mean, error, freedom) in enumerate(drawn)}
    )
    for contrast in family.values():
        if abs(contrast.p_adjusted - ALPHA) > 1e-9:
            assert contrast.separates == (contrast.p_adjusted < ALPHA)
        plain = contrast.difference.interval
        assert contrast.interval.low <= plain.low + 1e-12 and contrast.interval.high >= plain.high - 1e-12


def test_a_contrast_without_an_error_is_separated_unless_it_is_zero():
    family = contrasts_of(
        {
            "a": ClusteredMean(0.1, 0.0, 4.0),
            "b": ClusteredMean(0.0, 0.0, 4.0),
            "c": ClusteredMean(0.1, math.nan, math.nan),
        }
    )
    assert [contrast.separates for contrast in family.values()] == [True, False, False]
