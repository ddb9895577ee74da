"""Ranks, correlations, and the area under the ROC curve."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["auroc", "pearson", "ranks", "spearman"]

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
