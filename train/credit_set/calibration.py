"""Calibration against success rates: Brier score, expected calibration error, and monotone recalibration."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.sums import sum_in_order

__all__ = ["brier_score", "cross_fitted", "expected_calibration_error", "isotonic", "least_brier_score"]

Floats = NDArray[np.float64]

BINS: Final = 10


def brier_score(predicted: Floats, rate: Floats) -> float:
    """Expected squared difference between a prediction (N,) and the outcome, 0 or 1, of a continuation.

    If the rate (N,) is the fraction of successes among K continuations, this is the mean over them, without bias.
    """
    return float(np.mean((predicted - rate) ** 2 + rate * (1.0 - rate))) if len(rate) else float("nan")


def least_brier_score(rate: Floats, forks: NDArray[np.int64]) -> float:
    """The Brier score of the true probabilities q, mean q (1 − q); with K continuations, K / (K − 1) corrects the bias."""
    factor = np.where(forks > 1, forks / np.maximum(forks - 1, 1), 1.0)
    return float(np.mean(rate * (1.0 - rate) * factor)) if len(rate) else float("nan")


def expected_calibration_error(predicted: Floats, rate: Floats) -> float:
    """Mean |mean prediction − mean rate| over ten bins with equal numbers of predictions (Naeini et al. 2015)."""
    if not len(rate):
        return float("nan")
    order = np.argsort(predicted, kind="stable")
    parts = [part for part in np.array_split(order, BINS) if len(part)]
    gaps = [abs(float(predicted[part].mean() - rate[part].mean())) * len(part) for part in parts]
    return sum_in_order(gaps) / len(rate)


def isotonic(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Isotonic regression: the non-decreasing least-squares fit, by pooling adjacent violators (Ayer et al. 1955).

    Args:
        x: float64 (N,), N ≥ 1; equal entries share one value.
        y: float64 (N,).

    Returns:
        Sorted distinct x, and the fitted values there; float64 (M,) each.
    """
    places, index, weight = np.unique(x, return_inverse=True, return_counts=True)
    mean = np.bincount(index, y) / weight
    blocks: list[tuple[float, int, int]] = []  # mean, weight, number of places
    for value, count in zip(mean.tolist(), weight.tolist(), strict=True):
        width = 1
        while blocks and blocks[-1][0] >= value:
            before, total, places_before = blocks.pop()
            value = (before * total + value * count) / (total + count)
            count, width = count + total, width + places_before
        blocks.append((value, count, width))
    fitted = np.repeat([block[0] for block in blocks], [block[2] for block in blocks])
    return places, np.asarray(fitted, np.float64)


def cross_fitted(scores: Floats, rate: Floats, cluster: NDArray[np.int64]) -> Floats:
    """Recalibrate scores by ``isotonic``, each half of the clusters with the function fitted on the other half.

    Args:
        scores: float64 (N,), any numbers.
        rate: float64 (N,), success rates.
        cluster: int64 (N,), cluster of each entry; entries of one cluster are in one half.

    Returns:
        float64 (N,); NaN if either half is empty.
    """
    result = np.full(len(scores), np.nan)
    half = cluster % 2 == 0
    if half.any() and (~half).any():
        for part in (half, ~half):
            places, values = isotonic(scores[~part], rate[~part])
            result[part] = np.interp(scores[part], places, values)
    return result
