"""Estimates of a suite with exact values: tasks are the samples, and cells of one kind share them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from creditflow.train.statistics import ClusteredMean, stratified_mean

__all__ = ["CellMeans", "Estimate"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % confidence interval, which is nan where there are too few tasks."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return self.text()

    @classmethod
    def of(cls, found: ClusteredMean) -> Estimate:
        """A mean over tasks and seeds with its t interval."""
        return cls(found.mean, *found.interval)

    def times(self, factor: float) -> Estimate:
        """The estimate in another unit, such as percentage points; ``factor`` is positive."""
        return Estimate(factor * self.mean, factor * self.low, factor * self.high)

    def text(self, digits: int = 3, sign: Literal["", "+"] = "") -> str:
        """Mean and interval with ``digits`` decimal places; "+" shows the sign of positive numbers too."""
        mean, low, high = (f"{round(x, digits) + 0.0:{sign}.{digits}f}" for x in (self.mean, self.low, self.high))
        return f"{mean} [{low}, {high}]" if math.isfinite(self.low) else mean

    def short(self, digits: int = 2, sign: Literal["", "+"] = "") -> str:
        """Mean and half the width of the interval, which is symmetric, where there is little room.

        >>> Estimate(0.5, 0.4, 0.6).short()
        '0.50 ± 0.10'
        """
        mean = f"{round(self.mean, digits) + 0.0:{sign}.{digits}f}"
        return f"{mean} ± {(self.high - self.low) / 2:.{digits}f}" if math.isfinite(self.low) else mean


class CellMeans:
    """Means over cells of means over tasks, with standard errors over tasks.

    Cells of one kind have the same tasks, with different initial policies and group sizes, and each task has random numbers of
    its own: a task is one sample, whatever the number of its cells. Kinds, initial success rates and group sizes are strata,
    not samples.

    Args:
        cells: cells, each with ``kind`` and ``task_names``.
        lengths: for each cell, the number of its tasks, from the first on, that have values; all by default.
    """

    def __init__(self, cells: Sequence[Mapping[str, Any]], lengths: Sequence[int] | None = None) -> None:
        names = [list(c["task_names"]) for c in cells]
        names = names if lengths is None else [n[:k] for n, k in zip(names, lengths, strict=True)]
        of_kind: dict[str, list[int]] = {}
        for i, cell in enumerate(cells):
            of_kind.setdefault(cell["kind"], []).append(i)
        self._kinds = []
        for indices in of_kind.values():
            self._kinds.append(_Kind(indices, [names[i] for i in indices]))
        self._weights = [len(indices) / len(cells) for indices in of_kind.values()]

    def __call__(self, values: Sequence[Sequence[float]]) -> ClusteredMean:
        """The estimate of one value per cell and task."""
        return stratified_mean([kind.mean(values) for kind in self._kinds], self._weights)


class _Kind:
    """The cells of one kind, and which of their entries belong to which task."""

    def __init__(self, cells: Sequence[int], names: Sequence[Sequence[str]]) -> None:
        tasks = [name for of_cell in names for name in of_cell]
        numbers = {name: i for i, name in enumerate(dict.fromkeys(tasks))}
        self._cells, self._tasks = cells, len(numbers)
        self._task = np.array([numbers[name] for name in tasks])
        self._lengths = np.array([len(of_cell) for of_cell in names])

    def mean(self, values: Sequence[Sequence[float]]) -> ClusteredMean:
        """Mean over the cells; in each cell a task's deviation has the weight 1 / number of tasks."""
        rows = [np.asarray(values[i], np.float64) for i in self._cells]
        means = np.array([row.mean() for row in rows])
        weighted = (np.concatenate(rows) - np.repeat(means, self._lengths)) / np.repeat(self._lengths, self._lengths)
        deviations = np.bincount(self._task, weighted, self._tasks) / len(rows)
        n = self._tasks
        error = math.sqrt(float(deviations @ deviations) * n / (n - 1)) if n > 1 else math.nan
        return ClusteredMean(float(means.mean()), error, n - 1.0)
