"""Means, intervals and tests that evaluation and the benchmark share.

Distributions come from scipy. What scipy lacks is here: means over tasks and seeds where both vary, and Holm's adjustment.

Results of one task under several seeds are correlated, and so are those of several tasks under one seed (one trained policy), so they
must not be counted as independent. Where every seed has every task (a crossed design), the variance of the mean follows from a
two-way analysis of variance; where every seed has its own tasks (nested), the seeds are the samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from creditflow.envs.errors import ConfigError, MissingExtraError
from creditflow.envs.sums import sum_in_order

__all__ = [
    "ALPHA",
    "POWER",
    "ClusteredMean",
    "Contrast",
    "Interval",
    "auroc",
    "below_false_discovery_rate",
    "contrasts_of",
    "crossed_mean",
    "crossed_strata_mean",
    "detectable_difference",
    "holm",
    "jackknife",
    "mean_errors",
    "normal_interval",
    "pearson",
    "permutation_p",
    "rate_interval",
    "scipy_module",
    "spearman",
    "stratified_mean",
    "t_quantile",
]

Floats = NDArray[np.float64]
Name = TypeVar("Name")

ALPHA: Final = 0.05
POWER: Final = 0.8
PERMUTATIONS: Final = 9_999
ROUNDING: Final = 1e-13  # deviations below this fraction of the largest entry are rounding errors of a constant


class Interval(NamedTuple):
    """Both ends of a 95 % interval."""

    low: float
    high: float


def scipy_module(name: str) -> Any:
    """A module of scipy, such as "special".

    Raises:
        MissingExtraError: scipy is not installed.
    """
    try:
        return import_module(f"scipy.{name}")
    except ModuleNotFoundError as error:
        raise MissingExtraError("scipy", "bench") from error


def t_quantile(freedom: float, probability: float = 0.975) -> float:
    """The quantile of Student's t distribution: t with P(T ≤ t) = ``probability``; NaN for unknown degrees of freedom.

    >>> round(t_quantile(5), 3), round(t_quantile(1e6), 2)
    (2.571, 1.96)
    """
    stdtrit = scipy_module("special").stdtrit

    return float(stdtrit(freedom, probability))


# -- intervals of independent numbers ---------------------------------------------------------------------------------------
def normal_interval(values: ArrayLike) -> Interval:
    """95 % t interval of the mean of independent, normally distributed numbers; infinite for one number.

    >>> tuple(round(x, 3) for x in normal_interval([0.0, 1.0, 2.0]))
    (-1.484, 3.484)
    """
    x = np.asarray(values, np.float64)
    mean = float(x.mean())
    half = t_quantile(len(x) - 1.0) * float(x.std(ddof=1)) / math.sqrt(len(x)) if len(x) > 1 else math.inf
    return Interval(mean - half, mean + half)


def rate_interval(successes: float, trials: float) -> Interval:
    """95 % interval of the success rate of independent trials (Clopper and Pearson, 1934); both may be fractions.

    Raises:
        ConfigError: there is no trial.

    >>> tuple(round(x, 3) for x in rate_interval(8, 10))
    (0.444, 0.975)
    """
    if not trials > 0:
        raise ConfigError(f"an interval needs at least one trial, got {trials}")
    betaincinv = scipy_module("special").betaincinv

    low = betaincinv(successes, trials - successes + 1, ALPHA / 2) if successes > 0 else 0.0
    high = betaincinv(successes + 1, trials - successes, 1 - ALPHA / 2) if successes < trials else 1.0
    return Interval(float(low), float(high))


# -- agreement of scores ----------------------------------------------------------------------------------------------------
def pearson(x: ArrayLike, y: ArrayLike) -> float:
    """Pearson's correlation of two (N,); NaN for fewer than two entries, or if either is constant."""
    a, b = _centred(x), _centred(y)
    size = math.sqrt(float(a @ a)) * math.sqrt(float(b @ b))
    return float(a @ b) / size if size > 0.0 else math.nan


def _centred(x: ArrayLike) -> Floats:
    """Entries minus their mean; exactly 0 where the entries are equal up to rounding."""
    values = np.asarray(x, np.float64)
    if len(values) < 2:
        return np.zeros(len(values))
    centred: Floats = values - values.mean()
    noise = bool(np.abs(centred).max() <= ROUNDING * np.abs(values).max())
    return np.zeros(len(values)) if noise else centred


def spearman(x: ArrayLike, y: ArrayLike) -> float:
    """Spearman's rank correlation of two (N,), ties at their mean rank; NaN where ``pearson`` is."""
    return pearson(_ranks(x), _ranks(y))


def _ranks(x: ArrayLike) -> Any:
    rankdata = scipy_module("stats").rankdata

    return rankdata(x)


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
    return float((_ranks(scores)[kind].sum() - n * (n + 1) / 2.0) / (n * m))


# -- means over tasks and seeds ---------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class ClusteredMean:
    """A mean with its standard error, from which its interval and its test follow.

    Attributes:
        mean: the mean.
        standard_error: its standard error; NaN for a single result.
        degrees_of_freedom: degrees of freedom of the standard error.
    """

    mean: float
    standard_error: float
    degrees_of_freedom: float

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
            stdtr = scipy_module("special").stdtr

            return float(2.0 * stdtr(self.degrees_of_freedom, -abs(self.mean / self.standard_error)))
        return self.standard_error if math.isnan(self.standard_error) else float(self.mean == 0.0)


def crossed_mean(values: ArrayLike) -> ClusteredMean:
    """Mean of crossed results, with its standard error over tasks and seeds.

    With a single seed the error is that over tasks alone, and the other way round.

    Args:
        values: float64 (S, T), rows are seeds and columns are tasks.
    """
    x = np.asarray(values, np.float64)
    mean, error, freedom = (float(a) for a in mean_errors(x))
    return ClusteredMean(mean, error, freedom)


def jackknife(statistic: Callable[[NDArray[np.bool_]], float], tasks: ArrayLike) -> ClusteredMean:
    """A statistic of results of several tasks, with its standard error over tasks, by leaving out one task at a time (Efron and Stein, 1981).

    Args:
        statistic: maps bool (N,), the results to use, to a number.
        tasks: int (N,), the task of each result.

    Returns:
        The statistic of all results; the error is NaN for a single task, or where the statistic is undefined without one of them.
    """
    label = np.asarray(tasks)
    distinct = np.unique(label)
    n = len(distinct)
    value = statistic(np.ones(len(label), np.bool_))
    if n < 2:
        return ClusteredMean(value, math.nan, math.nan)
    without = np.array([statistic(label != task) for task in distinct])
    square = (n - 1) / n * float(((without - without.mean()) ** 2).sum())
    return ClusteredMean(value, math.sqrt(square), n - 1.0)


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


# -- many tests at once -----------------------------------------------------------------------------------------------------
def permutation_p(
    x: Floats, y: Floats, rng: np.random.Generator, permutations: int = PERMUTATIONS
) -> NDArray[np.float64]:
    """P-values of the hypotheses that rows of two samples have one distribution, by the difference of their means.

    The 2K numbers of a row are divided at random into two halves, ``permutations`` times; p is the fraction of divisions, the actual
    one included, whose means differ at least as much. It holds for any distribution, so also for scores that are 0 or 1.

    Args:
        x, y: float64 (N, K).
        rng: draws the divisions.
        permutations: number of them.

    Returns:
        float64 (N,); at K ≤ 3 none can be below 0.05.
    """
    k = x.shape[1]
    both = np.concatenate([x, y], axis=1)
    halves = rng.permuted(np.tile(np.repeat([1.0, -1.0], k), (permutations, 1)), axis=1)
    actual = np.abs(x.sum(axis=1) - y.sum(axis=1))
    least = actual - 1e-9 * np.maximum(1.0, actual)  # equal sums in another order differ by rounding
    as_far = np.array([(np.abs(halves @ row) >= bound).sum() for row, bound in zip(both, least, strict=True)])
    return np.asarray((1.0 + as_far) / (1.0 + permutations), np.float64)


def below_false_discovery_rate(p_values: ArrayLike, rate: float = ALPHA) -> NDArray[np.bool_]:
    """Which hypotheses are rejected so that at most a fraction ``rate`` of them is expected to be true (Benjamini and Hochberg, 1995).

    It holds for independent tests, and for many tests of which each depends on few others (Storey, Taylor and Siegmund, 2004).

    >>> below_false_discovery_rate([0.01, 0.04, 0.03, 0.9]).tolist()
    [True, False, False, False]
    """
    p = np.asarray(p_values, np.float64)
    order = np.sort(p)
    passing = np.flatnonzero(order <= rate * np.arange(1, len(p) + 1) / max(len(p), 1))
    return np.asarray(p <= order[passing[-1]]) if len(passing) else np.zeros(len(p), np.bool_)


# -- planned comparisons of several methods with one baseline ---------------------------------------------------------------
def holm(p_values: ArrayLike) -> list[float]:
    """P-values with Holm's step-down adjustment (1979): rejecting those below α keeps the family-wise error rate at most α.

    A NaN counts as 1 and stays NaN.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")  # NaN last
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(steps, 1.0)
    return [float(x) for x in adjusted]


@dataclass(frozen=True, slots=True)
class Contrast:
    """A method minus the baseline.

    Attributes:
        difference: mean difference, with its standard error.
        p_adjusted: p-value with Holm's adjustment over all contrasts of the family; NaN for a single result.
        detectable: the true difference that the test would find with probability ``POWER`` at the level α / number of
            contrasts, which is Holm's level for the smallest p-value.
    """

    difference: ClusteredMean
    p_adjusted: float
    detectable: float

    @property
    def interval(self) -> Interval:
        """The t interval at the level of Holm's step for this contrast: it excludes 0 if and only if ``p_adjusted`` is below ``ALPHA``.

        Where Holm's method multiplies the p-value by m, this is the interval of confidence 1 − ``ALPHA`` / m. NaN for a single result.
        """
        error, p = self.difference.standard_error, self.difference.p_value
        if not error > 0.0:
            half = error
        else:
            multiple = max(self.p_adjusted / p, 1.0) if p > 0.0 else 1.0
            half = t_quantile(self.difference.degrees_of_freedom, 1.0 - ALPHA / multiple / 2.0) * error
        return Interval(self.difference.mean - half, self.difference.mean + half)

    @property
    def separates(self) -> bool:
        """Whether the difference is significant at ``ALPHA`` after Holm's adjustment: ``interval`` excludes 0."""
        return self.interval.low > 0.0 or self.interval.high < 0.0


def contrasts_of(differences: Mapping[Name, ClusteredMean]) -> dict[Name, Contrast]:
    """A family of contrasts from their mean differences, by name."""
    adjusted = holm([difference.p_value for difference in differences.values()])
    level = ALPHA / max(len(differences), 1)
    return {
        name: Contrast(
            difference, p, detectable_difference(difference.standard_error, difference.degrees_of_freedom, alpha=level)
        )
        for (name, difference), p in zip(differences.items(), adjusted, strict=True)
    }


def detectable_difference(error: float, freedom: float, *, alpha: float = ALPHA, power: float = POWER) -> float:
    """The true difference that a two-sided t test at level ``alpha`` finds with probability ``power``.

    It is (t_{1 − α/2} + t_power) · standard error: NaN where the standard error is NaN, 0 where it is 0.

    >>> round(detectable_difference(1.0, 1e6), 2)
    2.8
    """
    if not error > 0.0:
        return error
    return (t_quantile(freedom, 1.0 - alpha / 2.0) + t_quantile(freedom, power)) * error
