"""Intervals: bootstrap over tasks and seeds, paired where two schemes played the same ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Estimate", "bootstrap"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


def bootstrap(values: NDArray[np.float64], *, draws: int = 2000, seed: int = 0) -> Estimate:
    """The mean of ``values`` and its percentile interval, resampling tasks and, within each task, seeds.

    Args:
        values: float64 (seeds, tasks).
        draws: of the bootstrap.
        seed: of its randomness.
    """
    rng = np.random.default_rng(seed)
    seeds, tasks = values.shape
    columns = rng.integers(tasks, size=(draws, tasks))
    rows = rng.integers(seeds, size=(draws, seeds, tasks))
    means = values[rows, columns[:, None, :]].mean(axis=(1, 2))
    low, high = np.quantile(means, [0.025, 0.975])
    return Estimate(float(values.mean()), float(low), float(high))
