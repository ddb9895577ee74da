"""Means over tasks and seeds: their standard error, interval and test where both vary.

Results of one task under several seeds are correlated, and so are those of several tasks under one seed (one trained
policy), so they must not be counted as independent. Where every seed has every task (a crossed design), the variance of the
mean follows from a two-way analysis of variance; where every seed has its own tasks (nested), the seeds are the samples.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from creditflow.envs.errors import ConfigError
from creditflow.envs.sums import sum_in_order
from creditflow.train.statistics.intervals import Interval
from creditflow.train.statistics.student import t_quantile, t_tails

__all__ = [
    "ClusteredMean",
    "Components",
    "clustered_mean",
    "crossed_mean",
    "crossed_strata_mean",
    "mean_errors",
    "stratified_mean",
]

Floats = NDArray[np.float64]


class Components(NamedTuple):
    """Variance components of crossed results: of tasks, of seeds, and of the rest; NaN where the design does not identify them.

    The variance of a mean over T tasks under S seeds is tasks / T + seeds / S + rest / (S·T).
    """

    tasks: float
    seeds: float
    rest: float


UNKNOWN = Components(math.nan, math.nan, math.nan)


@dataclass(frozen=True, slots=True)
class ClusteredMean:
    """A mean with its standard error, from which its interval and its test follow.

    Attributes:
        mean: the mean.
        standard_error: its standard error; NaN for a single result.
        degrees_of_freedom: degrees of freedom of the standard error.
        components: variance components of one result.
    """

    mean: float
    standard_error: float
    degrees_of_freedom: float
    components: Components = UNKNOWN

    @property
    def interval(self) -> Interval:
        """95 % t interval; NaN for a single result."""
        half = (
            t_quantile(self.degrees_of_freedom) * self.standard_error
            if self.standard_error > 0.0
            else self.standard_error
        )
        return Interval(self.mean - half, self.mean + half)

    @property
    def p_value(self) -> float:
        """Two-sided p-value of the hypothesis that the mean is 0; NaN for a single result."""
        if self.standard_error > 0.0:
            return t_tails(self.mean / self.standard_error, self.degrees_of_freedom)
        return self.standard_error if math.isnan(self.standard_error) else float(self.mean == 0.0)


def clustered_mean(
    values: ArrayLike, tasks: Sequence[Hashable], seeds: Sequence[Hashable] | None = None
) -> ClusteredMean:
    """Mean of results over tasks and seeds; for a paired comparison, of their differences.

    Results with the same task and seed are averaged first.

    Args:
        values: float64 (N,).
        tasks: the task of each value, (N,).
        seeds: the seed of each value, (N,); by default one seed, so that tasks are the samples.

    Returns:
        As ``crossed_mean`` if every seed has every task; if no task has two seeds, the mean over seeds of the mean over
        their tasks, with the seeds as samples.

    Raises:
        ConfigError: there is no value, the lengths differ, or the design is neither crossed nor nested.
    """
    x = np.asarray(values, np.float64)
    seeds = [0] * len(tasks) if seeds is None else seeds
    if not len(x) == len(tasks) == len(seeds) or not len(x):
        raise ConfigError(
            f"a mean needs values, each with its task and seed, got {len(x)} values, {len(tasks)} tasks, {len(seeds)} seeds"
        )
    columns, rows = _numbered(tasks), _numbered(seeds)
    sums, counts = np.zeros((len(rows), len(columns))), np.zeros((len(rows), len(columns)))
    at = [rows[seed] for seed in seeds], [columns[task] for task in tasks]
    np.add.at(sums, at, x)
    np.add.at(counts, at, 1.0)
    if counts.all():
        return crossed_mean(sums / counts)
    if (np.count_nonzero(counts, axis=0) > 1).any():
        missing = int((counts == 0.0).sum())
        raise ConfigError(
            "the tasks must be the same under all seeds, or different under every seed: "
            f"{missing} of {counts.size} pairs of task and seed are missing; measure these or leave their tasks out"
        )
    per_task = np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0.0)
    return crossed_mean((per_task.sum(axis=1) / np.count_nonzero(counts, axis=1))[:, None])


def _numbered(labels: Sequence[Hashable]) -> dict[Hashable, int]:
    return {label: i for i, label in enumerate(dict.fromkeys(labels))}


def crossed_mean(values: ArrayLike) -> ClusteredMean:
    """Mean of crossed results, with its standard error over tasks and seeds.

    With a single seed the error is that over tasks alone, and the other way round.

    Args:
        values: float64 (S, T), rows are seeds and columns are tasks.
    """
    x = np.asarray(values, np.float64)
    mean, error, freedom = (float(a) for a in mean_errors(x))
    return ClusteredMean(mean, error, freedom, _components(x))


def mean_errors(values: Floats) -> tuple[Floats, Floats, Floats]:
    """Means of crossed results, their standard errors and degrees of freedom.

    With the mean squares M_T of tasks, M_S of seeds and M_R of the rest, M_T + M_S − M_R over the number of results
    estimates the variance of the mean without bias (Cornfield and Tukey, 1956; its plain form is the two-way
    clustered variance of Cameron, Gelbach and Miller, 2011). It can be negative and is too small about as often as too
    large, so it is taken to be at least max(M_T, M_S), with the smaller of two degrees of freedom: Satterthwaite's, and those
    of the larger mean square. This rule was chosen by the coverage of its intervals in simulations: ``tests/train/statistics``.

    Args:
        values: float64 (..., S, T), rows are seeds and columns are tasks.

    Returns:
        Three arrays (...); the last two are NaN for one seed and one task.
    """
    s, t = values.shape[-2:]
    mean = values.mean(axis=(-2, -1))
    by_task, by_seed, rest = _mean_squares(values)
    least = np.fmax(by_task, by_seed)  # NaN: this factor has one level
    if min(s, t) == 1:
        return mean, np.sqrt(least / (s * t)), np.where(np.isnan(least), np.nan, float(max(s, t) - 1))
    square = np.maximum(by_task + by_seed - rest, least)
    squares = by_task**2 / (t - 1) + by_seed**2 / (s - 1)
    satterthwaite = np.divide(square**2, squares, out=np.ones_like(squares), where=squares > 0.0)
    larger = np.where(by_seed >= by_task, s - 1.0, t - 1.0)
    return mean, np.sqrt(square / (s * t)), np.maximum(np.minimum(satterthwaite, larger), 1.0)


def stratified_mean(means: Sequence[ClusteredMean], weights: Sequence[float] | None = None) -> ClusteredMean:
    """Weighted mean of means over independent strata, by Welch and Satterthwaite.

    Args:
        means: one or more means, for example of task kinds, which are chosen and not sampled.
        weights: the weight of each mean; they sum to 1; by default equal.
    """
    weight = np.full(len(means), 1.0 / len(means)) if weights is None else np.asarray(weights, np.float64)
    errors = np.array([stratum.standard_error for stratum in means]) * weight
    mean, error = float(weight @ [stratum.mean for stratum in means]), math.sqrt(float((errors**2).sum()))
    positive = errors > 0.0
    if not error > 0.0:
        return ClusteredMean(mean, error, math.nan)
    freedom = np.array([stratum.degrees_of_freedom for stratum in means])[positive]
    fractions = (errors[positive] / error) ** 2  # of the variance; fourth powers of tiny errors would underflow
    together = float(1.0 / (fractions**2 / freedom).sum())
    return ClusteredMean(mean, error, max(together, float(freedom.min())))  # the minimum only corrects rounding


def crossed_strata_mean(strata: Sequence[Floats]) -> ClusteredMean:
    """Mean of the means of strata of tasks under the same seeds, each stratum counting alike.

    One seed is in all strata, so their means are not independent: the seeds' part of the variance is that of each seed's mean of
    strata. The tasks' part is that of the strata together. Both are joined, and bounded, as in ``mean_errors``. Under several seeds a stratum
    of one task adds nothing to the tasks' part, so the interval does not cover the choice of that task.

    Args:
        strata: float64 (S, T_k) each, rows are the seeds and columns are the tasks of one stratum.

    Returns:
        The mean; of one stratum that of ``crossed_mean``, of one seed that of ``stratified_mean``.

    Raises:
        ConfigError: there is no stratum, or the strata differ in their number of seeds.
    """
    if len({len(values) for values in strata}) != 1:
        raise ConfigError(
            f"strata under the same seeds: expected the same rows in all, got {[v.shape for v in strata]}"
        )
    s = len(strata[0])
    means = [crossed_mean(values) for values in strata]
    if s == 1 or len(strata) == 1:
        return stratified_mean(means)
    by_seed = crossed_mean(np.mean([values.mean(axis=1) for values in strata], axis=0)[:, None])
    tasks, rest, freedoms = [], [], []
    for values in strata:
        t = values.shape[1]
        if t > 1:  # the tasks' part of a single task is unknown
            of_task, _, of_rest = (float(square) for square in _mean_squares(values))
            weight = len(strata) ** 2 * s * t
            tasks.append(of_task / weight)
            rest.append(of_rest / weight)
            freedoms.append(t - 1.0)
    of_tasks, of_seeds = sum_in_order(tasks), by_seed.standard_error**2
    square = max(of_tasks + of_seeds - sum_in_order(rest), of_tasks, of_seeds)
    if not square > 0.0:
        return ClusteredMean(by_seed.mean, math.sqrt(square), math.nan)
    task_freedom = _satterthwaite(tasks, freedoms) if of_tasks > 0.0 else math.inf
    larger = s - 1.0 if of_seeds >= of_tasks else task_freedom
    joined = square**2 * _satterthwaite([of_tasks, of_seeds], [task_freedom, s - 1.0]) / (of_tasks + of_seeds) ** 2
    return ClusteredMean(by_seed.mean, math.sqrt(square), max(min(joined, larger), 1.0))


def _satterthwaite(squares: Sequence[float], freedoms: Sequence[float]) -> float:
    """Degrees of freedom of a sum of independent variances, one of which is not 0."""
    fractions = np.array(squares) / sum_in_order(squares)
    return float(1.0 / (fractions**2 / np.array(freedoms)).sum())


def _mean_squares(values: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean squares of tasks, of seeds and of the rest; NaN without degrees of freedom."""
    s, t = values.shape[-2:]
    mean = values.mean(axis=(-2, -1), keepdims=True)
    of_task, of_seed = values.mean(axis=-2, keepdims=True), values.mean(axis=-1, keepdims=True)

    def mean_square(deviations: Floats, repeats: int, freedom: int) -> Floats:
        squares: Floats = (deviations**2).sum(axis=(-2, -1)) * repeats
        return squares / freedom if freedom else np.full_like(squares, np.nan)

    return (
        mean_square(of_task - mean, s, t - 1),
        mean_square(of_seed - mean, t, s - 1),
        mean_square(values - of_task - of_seed + mean, 1, (s - 1) * (t - 1)),
    )


def _components(values: Floats) -> Components:
    s, t = values.shape
    by_task, by_seed, rest = (float(m) for m in _mean_squares(values))
    if s > 1 and t > 1:
        return Components(max((by_task - rest) / s, 0.0), max((by_seed - rest) / t, 0.0), rest)
    return UNKNOWN
