"""How good a success model is: ranking of pivots, calibration, and intervals that respect questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["auc", "bootstrap", "calibration_error", "logistic_fit"]

Floats = NDArray[np.float64]


def auc(scores: Floats, positive: NDArray[np.bool_]) -> float:
    """Probability that a positive scores above a negative, ties counted half; NaN if one kind is missing.

    >>> auc(np.array([0.1, 0.4, 0.4, 0.8]), np.array([False, False, True, True]))
    0.875
    """
    n, m = int(positive.sum()), int((~positive).sum())
    if not n or not m:
        return float("nan")
    _, place, count = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(count) - (count - 1) / 2.0)[place]  # from 1, tied scores share their mean rank
    return float((ranks[positive].sum() - n * (n + 1) / 2.0) / (n * m))


def calibration_error(probability: Floats, outcome: NDArray[np.bool_], bins: int = 10) -> float:
    """Expected calibration error: Σ share · |mean outcome − mean probability| over bins of equal width."""
    if not len(probability):
        return float("nan")
    place = np.minimum((probability * bins).astype(np.int64), bins - 1)
    gap = np.bincount(place, outcome - probability, minlength=bins)
    return float(np.abs(gap).sum() / len(probability))


def bootstrap(
    parts: Sequence[NDArray[np.int64]],
    statistic: Callable[[NDArray[np.int64]], float],
    *,
    draws: int = 1000,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """The 2.5 % and 97.5 % points of a statistic when whole parts are drawn again with replacement.

    Args:
        parts: of each independent unit (a question), the indices of its samples.
        statistic: of an array of indices.
        draws: resamples; those on which the statistic is NaN are left out.
        rng: source of randomness.
    """
    values = []
    for _ in range(draws):
        chosen = rng.integers(len(parts), size=len(parts))
        values.append(statistic(np.concatenate([parts[i] for i in chosen])))
    low, high = np.nanpercentile(values, [2.5, 97.5])
    return float(low), float(high)


def logistic_fit(features: Floats, positive: NDArray[np.bool_], ridge: float, rounds: int = 30) -> Floats:
    """Weights of logistic regression on (N, F) features by Newton's method; ``ridge`` is per sample.

    >>> weights = logistic_fit(np.array([[1.0], [1.0], [1.0], [1.0]]), np.array([True, True, True, False]), 0.0)
    >>> round(float(weights[0]), 4)  # log 3
    1.0986
    """
    weights = np.zeros(features.shape[1])
    penalty = ridge * len(features)
    for _ in range(rounds):
        chance = 1.0 / (1.0 + np.exp(-features @ weights))
        curvature = (features * (chance * (1.0 - chance))[:, None]).T @ features + penalty * np.eye(len(weights))
        weights -= np.linalg.solve(curvature, features.T @ (chance - positive) + penalty * weights)
    return weights
