"""Intervals, correlations, ranks and tests that evaluation, analyses and the benchmark share.

Plain NumPy, each checked against scipy in the tests: scipy's import takes longer than the whole command line, and its
bootstrap does not resample clusters.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from math import comb
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from creditflow.envs.errors import ConfigError

__all__ = [
    "N_RESAMPLES",
    "Interval",
    "auroc",
    "cluster_bootstrap",
    "normal_interval",
    "pearson",
    "percentile_interval",
    "ranks",
    "sign_test",
    "spearman",
    "t_quantile",
    "wilson_interval",
]

Floats = NDArray[np.float64]

N_RESAMPLES: Final = 2000
Z: Final = statistics.NormalDist().inv_cdf(0.975)
ROUNDING: Final = 1e-13  # deviations below this fraction of the largest entry are rounding errors of a constant


class Interval(NamedTuple):
    """Both ends of a 95 % interval."""

    low: float
    high: float


# -- intervals --------------------------------------------------------------------------------------------------------------
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
    # exact at the ends, where both terms are equal but for rounding
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
    return percentile_interval([statistic(np.concatenate([clusters[i] for i in row])) for row in drawn])


# -- ranks and correlations -------------------------------------------------------------------------------------------------
def ranks(x: ArrayLike) -> Floats:
    """Ranks from 1, ties share their mean rank; float64 (N,).

    >>> ranks([3.0, 1.0, 3.0]).tolist()
    [2.5, 1.0, 2.5]
    """
    _, place, count = np.unique(np.asarray(x), return_inverse=True, return_counts=True)
    mean_rank: Floats = np.cumsum(count) - (count - 1) / 2.0
    return mean_rank[place]


def pearson(x: ArrayLike, y: ArrayLike) -> float:
    """Pearson's correlation of two (N,); NaN for fewer than two entries, or if either is constant."""
    a, b = _centred(x), _centred(y)
    size = math.sqrt(float(a @ a)) * math.sqrt(float(b @ b))
    return float(a @ b) / size if size > 0.0 else math.nan


def spearman(x: ArrayLike, y: ArrayLike) -> float:
    """Spearman's rank correlation of two (N,), ties at their mean rank; NaN where ``pearson`` is."""
    return pearson(ranks(x), ranks(y))


def auroc(scores: ArrayLike, positive: ArrayLike) -> float:
    """Area under the ROC curve: the probability that a positive scores above a negative, ties counting half.

    NaN if there are no positives or no negatives.

    >>> auroc(np.array([0.1, 0.4, 0.4, 0.8]), np.array([False, False, True, True]))
    0.875
    """
    kind = np.asarray(positive, np.bool_)
    n, m = int(kind.sum()), int((~kind).sum())
    if not n or not m:
        return math.nan
    return float((ranks(scores)[kind].sum() - n * (n + 1) / 2.0) / (n * m))


def _centred(x: Any) -> Floats:
    """Entries minus their mean; exactly 0 where the entries are equal but for rounding."""
    values = np.asarray(x, np.float64)
    if len(values) < 2:
        return np.zeros(len(values))
    centred: Floats = values - values.mean()
    noise = bool(np.abs(centred).max() <= ROUNDING * np.abs(values).max())
    return np.zeros(len(values)) if noise else centred


# -- tests ------------------------------------------------------------------------------------------------------------------
def sign_test(more: int, less: int) -> float:
    """Two-sided exact p-value of the sign test, from the numbers of positive and negative differences without ties.

    >>> sign_test(5, 0)
    0.0625
    """
    n = more + less
    tail = sum(comb(n, k) for k in range(min(more, less) + 1))
    return float(min(1.0, 2 * tail / 2**n))


def t_quantile(freedom: float, probability: float = 0.975) -> float:
    """The quantile of Student's t distribution: t with P(T ≤ t) = ``probability``.

    >>> round(t_quantile(5), 3), round(t_quantile(1e6), 2)
    (2.571, 1.96)

    Args:
        freedom: degrees of freedom, at least 1.
        probability: in [.5, .9995).
    """
    # with n degrees of freedom and t = √n tan θ the density is proportional to cos^(n − 1) θ on (−π/2, π/2)
    angle = np.linspace(0.0, np.pi / 2, 200_001)
    density = np.cos(angle) ** (freedom - 1.0)
    below = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return float(np.sqrt(freedom) * np.tan(np.interp(2.0 * probability - 1.0, below / below[-1], angle)))
