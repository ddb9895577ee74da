"""Advantages from forks: a published interval, its coverage, and a correlation without the noise of the forks."""

from __future__ import annotations

import numpy as np
import pytest
from evidence.pica.fair.targets import Advantages, advantages, difference_interval, true_correlation
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.errors import ConfigError


@pytest.mark.parametrize(  # Newcombe 1998, table II, method 10
    ("successes", "trials", "others", "other_trials", "interval"),
    [(56, 70, 48, 80, (0.0524, 0.3339)), (9, 10, 3, 10, (0.1705, 0.8090)), (10, 10, 0, 10, (0.6075, 1.0))],
)
def test_the_interval_is_newcombes(successes, trials, others, other_trials, interval) -> None:
    assert difference_interval(successes, trials, others, other_trials) == pytest.approx(interval, abs=6e-5)


@given(st.integers(0, 30), st.integers(0, 30))
def test_the_interval_contains_the_difference_and_turns_with_it(a, b) -> None:
    low, high = difference_interval(a, 30, b, 30)
    assert -1.0 <= low <= (a - b) / 30 + 1e-12
    assert (a - b) / 30 <= high + 1e-12 <= 1.0 + 1e-9
    assert difference_interval(b, 30, a, 30) == pytest.approx((-high, -low))


def test_the_interval_covers_the_truth() -> None:
    rng = np.random.default_rng(0)
    p, q = rng.uniform(0.05, 0.95, (2, 4000))
    found = advantages(
        (rng.random((4000, 32)) < q[:, None]).astype(float), (rng.random((4000, 32)) < p[:, None]).astype(float)
    )
    covered = np.mean((found.low <= p - q) & (p - q <= found.high))
    assert 0.93 < covered < 0.98
    assert not (found.pivot & found.harmful).any()


def test_the_correlation_is_corrected_for_the_noise_of_few_continuations() -> None:
    rng = np.random.default_rng(1)
    q, p = rng.uniform(0.2, 0.8, (2, 20_000))
    score = (p - q) + rng.normal(scale=0.25, size=len(p))
    truth = float(np.corrcoef(score, p - q)[0, 1])
    before, after = ((rng.random((len(p), 8)) < x[:, None]).astype(float) for x in (q, p))
    observed, corrected = true_correlation(score, advantages(before, after))
    assert observed < truth - 0.05
    assert corrected == pytest.approx(truth, abs=0.02)


def test_noise_alone_has_no_true_correlation() -> None:
    nothing = np.zeros(4)
    assert np.isnan(
        true_correlation(np.arange(4.0), Advantages(np.array([0.1, -0.1, 0.1, -0.1]), nothing, nothing, np.ones(4)))[1]
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [(np.full((2, 3), 0.5), np.ones((2, 3))), (np.ones((2, 3)), np.ones((2, 4))), (np.ones((2, 1)), np.ones((2, 1)))],
)
def test_outcomes_that_are_no_rates_are_refused(before, after) -> None:
    with pytest.raises(ConfigError, match="advantages"):
        advantages(before, after)
