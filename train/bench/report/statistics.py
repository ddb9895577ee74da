"""Confidence intervals: bootstrap over tasks (and seeds), paired where two methods share the tasks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.train.statistics import N_RESAMPLES, percentile_interval

__all__ = ["Estimate", "TaskBootstrap", "bootstrap", "paired"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % confidence interval, which is nan where there are too few tasks."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return self.text()

    def text(self, digits: int = 3, sign: Literal["", "+"] = "") -> str:
        """Mean and interval with ``digits`` decimal places; "+" shows the sign of positive numbers too."""
        mean, low, high = (f"{round(x, digits) + 0.0:{sign}.{digits}f}" for x in (self.mean, self.low, self.high))
        return f"{mean} [{low}, {high}]" if math.isfinite(self.low) else mean


def paired(a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    """Mean of a − b over tasks and its standard error (inf for one task)."""
    difference = np.asarray(a) - np.asarray(b)
    n = len(difference)
    return float(difference.mean()), float(difference.std(ddof=1) / np.sqrt(n)) if n > 1 else float("inf")


class TaskBootstrap:
    """Means over cells of means over tasks, with percentile intervals from resampling tasks.

    Cells of one kind have the same tasks, with other initial policies and group sizes: a task is resampled for all of them
    at once, and only within its kind. Kinds, initial success rates and group sizes are strata, not samples.

    Args:
        cells: cells, each with ``kind`` and ``task_names``.
        lengths: for each cell, how many of its first tasks have values; default all.
        n_resamples: number of bootstrap resamples.
        seed: seed of the bootstrap.
    """

    def __init__(
        self,
        cells: Sequence[Mapping[str, Any]],
        lengths: Sequence[int] | None = None,
        *,
        n_resamples: int = N_RESAMPLES,
        seed: int = 0,
    ) -> None:
        names = [list(c["task_names"]) for c in cells]
        self._names = names if lengths is None else [n[:k] for n, k in zip(names, lengths, strict=True)]
        rng = np.random.default_rng(seed)
        counts: dict[str, dict[str, NDArray[np.float64]]] = {}
        for kind in dict.fromkeys(c["kind"] for c in cells):
            mine = [n for c, n in zip(cells, self._names, strict=True) if c["kind"] == kind]
            tasks = list(dict.fromkeys(name for n in mine for name in n))
            # n − 1 of n tasks: with n, the variance of a mean would be too small by the factor (n − 1) / n (Rao and Wu, 1988)
            few = max(len(tasks) - 1, 1)
            drawn = rng.multinomial(few, np.full(len(tasks), 1.0 / len(tasks)), size=n_resamples).astype(float)
            counts[kind] = dict(zip(tasks, drawn.T, strict=True))
        self._enough = all(len(tasks) > 1 for tasks in counts.values())
        weights, used = [], np.zeros(n_resamples)
        for cell, own in zip(cells, self._names, strict=True):
            taken = np.stack([counts[cell["kind"]][name] for name in own], axis=1)
            total = taken.sum(axis=1, keepdims=True)
            weights.append(np.divide(taken, total, out=np.zeros_like(taken), where=total > 0.0))
            used += total[:, 0] > 0.0  # a cell of few tasks may be missed by a draw
        kept = used > 0.0
        self._weights = np.concatenate(weights, axis=1)[kept] / used[kept, None]

    def __call__(self, values: Sequence[Sequence[float]]) -> Estimate:
        """The estimate of one value per cell and task."""
        mean = float(np.mean([np.mean(v) for v in values]))
        if not self._enough:
            return Estimate(mean, float("nan"), float("nan"))
        return Estimate(
            mean, *percentile_interval(self._weights @ np.concatenate([np.asarray(v, float) for v in values]))
        )


def bootstrap(values: NDArray[np.float64], *, n_resamples: int = N_RESAMPLES, seed: int = 0) -> Estimate:
    """The mean of ``values`` and its percentile interval, resampling tasks and, within each task, seeds.

    Args:
        values: float64 (seeds, tasks).
        n_resamples: number of bootstrap resamples.
        seed: seed of the bootstrap.
    """
    rng = np.random.default_rng(seed)
    seeds, tasks = values.shape
    columns = rng.integers(tasks, size=(n_resamples, tasks))
    rows = rng.integers(seeds, size=(n_resamples, seeds, tasks))
    means = values[rows, columns[:, None, :]].mean(axis=(1, 2))
    return Estimate(float(values.mean()), *percentile_interval(means))
