"""How well scores agree with outcomes: ranks, correlations, the area under the ROC curve, calibration error, logistic regression."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["auroc", "calibration_error", "logistic_fit", "pearson", "ranks", "spearman"]

Floats = NDArray[np.float64]

ROUNDING: Final = 1e-13  # deviations below this fraction of the largest entry are rounding errors of a constant


def ranks(x: ArrayLike) -> Floats:
    """Ranks from 1; ties share their mean rank; float64 (N,).

    >>> ranks([3.0, 1.0, 3.0]).tolist()
    [2.5, 1.0, 2.5]
    """
    _, value, count = np.unique(np.asarray(x), return_inverse=True, return_counts=True)
    mean_rank: Floats = np.cumsum(count) - (count - 1) / 2.0
    return mean_rank[value]


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
    """Entries minus their mean; exactly 0 where the entries are equal up to rounding."""
    values = np.asarray(x, np.float64)
    if len(values) < 2:
        return np.zeros(len(values))
    centred: Floats = values - values.mean()
    noise = bool(np.abs(centred).max() <= ROUNDING * np.abs(values).max())
    return np.zeros(len(values)) if noise else centred


def calibration_error(probability: Floats, outcome: NDArray[np.bool_], bins: int = 10) -> float:
    """Expected calibration error: Σ n_b / N · |mean outcome − mean probability| over equal bins b; nan if N = 0."""
    if not len(probability):
        return float("nan")
    bin_of = np.minimum((probability * bins).astype(np.int64), bins - 1)
    gap = np.bincount(bin_of, outcome - probability, minlength=bins)
    return float(np.abs(gap).sum() / len(probability))


def logistic_fit(features: Floats, positive: NDArray[np.bool_], ridge: float, rounds: int = 30) -> Floats:
    """Weights of logistic regression on (N, F) features by Newton's method; ``ridge`` is per sample.

    >>> weights = logistic_fit(np.array([[1.0], [1.0], [1.0], [1.0]]), np.array([True, True, True, False]), 0.0)
    >>> round(float(weights[0]), 4)  # log 3
    1.0986
    """
    weights = np.zeros(features.shape[1])
    penalty = ridge * len(features)
    for _ in range(rounds):
        probability = 1.0 / (1.0 + np.exp(-features @ weights))
        curvature = (features * (probability * (1.0 - probability))[:, None]).T @ features + penalty * np.eye(
            len(weights)
        )
        weights -= np.linalg.solve(curvature, features.T @ (probability - positive) + penalty * weights)
    return weights
