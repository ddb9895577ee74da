"""Calibration error of probabilities, and logistic regression (for Platt scaling and baselines)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["calibration_error", "logistic_fit"]

Floats = NDArray[np.float64]


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
