"""95 % intervals of success rates, of means of independent numbers, and of any statistic by resampling clusters."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from creditflow.envs.errors import ConfigError

__all__ = ["N_RESAMPLES", "Interval", "cluster_bootstrap", "normal_interval", "percentile_interval", "wilson_interval"]

N_RESAMPLES: Final = 2000
Z: Final = statistics.NormalDist().inv_cdf(0.975)


class Interval(NamedTuple):
    """Both ends of a 95 % interval."""

    low: float
    high: float


def wilson_interval(successes: float, trials: int) -> Interval:
    """95 % interval of the success rate of independent trials (Wilson 1927).

    Raises:
        ConfigError: there is no trial.

    >>> tuple(round(x, 3) for x in wilson_interval(8, 10))
    (0.49, 0.943)
    """
    if trials < 1:
        raise ConfigError(f"an interval needs at least one trial, got {trials}")
    p, n = successes / trials, trials
    centre = p + Z * Z / (2 * n)
    half = Z * math.sqrt(p * (1 - p) / n + Z * Z / (4 * n * n))
    scale = 1 + Z * Z / n
    # exact at the ends, where both terms are equal up to rounding
    return Interval(
        (centre - half) / scale if successes > 0 else 0.0, (centre + half) / scale if successes < trials else 1.0
    )


def normal_interval(values: ArrayLike) -> Interval:
    """95 % interval of the mean of independent numbers by the normal approximation; infinite for one number.

    >>> tuple(round(x, 3) for x in normal_interval([0.0, 1.0, 2.0]))
    (-0.132, 2.132)
    """
    x = np.asarray(values, np.float64)
    mean = float(x.mean())
    half = Z * float(x.std(ddof=1)) / math.sqrt(len(x)) if len(x) > 1 else math.inf
    return Interval(mean - half, mean + half)


def percentile_interval(estimates: ArrayLike) -> Interval:
    """The 2.5 % and 97.5 % quantiles of a statistic over resamples, without those on which it is NaN; NaN if none is left."""
    x = np.asarray(estimates, np.float64)
    x = x[~np.isnan(x)]
    if not len(x):
        return Interval(math.nan, math.nan)
    low, high = np.quantile(x, [0.025, 0.975])
    return Interval(float(low), float(high))


def cluster_bootstrap(
    clusters: Sequence[NDArray[np.int64]],
    statistic: Callable[[NDArray[np.int64]], float],
    *,
    rng: np.random.Generator,
    n_resamples: int = N_RESAMPLES,
) -> Interval:
    """95 % percentile interval of a statistic; whole clusters are resampled with replacement.

    Entries of one cluster (the turns of one question) are not independent, so single entries must not be resampled.

    Args:
        clusters: the indices of each cluster's entries; clusters are independent of each other.
        statistic: maps an array of indices to a number.
        rng: source of randomness.
        n_resamples: number of resamples; those on which the statistic is NaN are left out.
    """
    n = len(clusters)
    drawn = rng.integers(n, size=(n_resamples, n))
    resamples = (np.concatenate([clusters[i] for i in row]) for row in drawn)
    return percentile_interval(list(map(statistic, resamples)))
