"""Targets of the fair test: V and Q of the acting policy from continuations, and A = Q − V with a 95 % interval.

A turn is a *pivot* if the interval of its advantage lies above 0. Outcomes are 0 or 1, so the interval is Newcombe's (1998, method 10): the
difference of two independent rates, from the Wilson interval of each.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError
from creditflow.train.statistics import Interval, pearson, wilson_interval

__all__ = ["Advantages", "advantages", "difference_interval", "true_correlation"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Advantages(NamedTuple):
    """Estimated advantages of N turns, each float64 (N,).

    Attributes:
        mean: Q̂ − V̂.
        low, high: ends of the 95 % intervals.
        noise: variance of the sampling error of ``mean``.
    """

    mean: Floats
    low: Floats
    high: Floats
    noise: Floats

    @property
    def pivot(self) -> Bools:
        """bool (N,): the interval lies above 0."""
        return self.low > 0.0

    @property
    def harmful(self) -> Bools:
        """bool (N,): the interval lies below 0."""
        return self.high < 0.0


def difference_interval(successes: float, trials: int, others: float, other_trials: int) -> Interval:
    """95 % interval of the difference of two success rates of independent trials (Newcombe 1998, method 10).

    >>> tuple(round(x, 4) for x in difference_interval(56, 70, 48, 80))  # the paper's first example
    (0.0524, 0.3339)
    """
    p, q = successes / trials, others / other_trials
    a, b = wilson_interval(successes, trials), wilson_interval(others, other_trials)
    return Interval(p - q - math.hypot(p - a.low, b.high - q), p - q + math.hypot(a.high - p, q - b.low))


def advantages(before: Floats, after: Floats) -> Advantages:
    """Advantages from the outcomes of continuations.

    Args:
        before, after: (N, K), 0 or 1: K continuations from the state before each turn, and K from the one after it.

    Raises:
        ConfigError: outcomes that are not 0 or 1, or shapes that differ.
    """
    if before.shape != after.shape or before.ndim != 2 or before.shape[1] < 2:
        raise ConfigError(
            f"advantages: expected two arrays (turns, at least 2 continuations), got {before.shape} and {after.shape}"
        )
    if not np.isin(np.concatenate([before, after]), (0.0, 1.0)).all():
        raise ConfigError("advantages: the interval is that of success rates; outcomes must be 0 or 1")
    trials = before.shape[1]
    ends = np.array(
        [difference_interval(q, trials, v, trials) for q, v in zip(after.sum(axis=1), before.sum(axis=1), strict=True)]
    )
    ends = ends.reshape(-1, 2)
    noise = (before.var(axis=1, ddof=1) + after.var(axis=1, ddof=1)) / trials
    return Advantages(after.mean(axis=1) - before.mean(axis=1), ends[:, 0], ends[:, 1], noise)


def true_correlation(score: Floats, found: Advantages) -> tuple[float, float]:
    """Correlation of a score with Â, and with A, which is Â without the noise of the continuations; NaN where undefined.

    The variance of A is that of Â minus the mean sampling variance; the score is taken as free of noise.
    """
    observed = pearson(score, found.mean)
    total = float(found.mean.var())
    known = total - float(found.noise.mean())
    return observed, observed * math.sqrt(total / known) if known > 0.0 else math.nan
