"""Planned comparisons of several methods with one baseline on the same tasks and seeds, and the power of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from creditflow.train.statistics.clustered import ClusteredMean, crossed_mean
from creditflow.train.statistics.intervals import Interval
from creditflow.train.statistics.significance import holm
from creditflow.train.statistics.student import t_quantile

__all__ = ["ALPHA", "POWER", "Contrast", "contrasts_of", "detectable_difference", "probability_of_improvement"]

Floats = NDArray[np.float64]

ALPHA: Final = 0.05
POWER: Final = 0.8


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


def contrasts_of(differences: Mapping[str, ClusteredMean]) -> dict[str, Contrast]:
    """A family of contrasts from their mean differences, by name."""
    adjusted = holm([difference.p_value for difference in differences.values()])
    level = ALPHA / max(len(differences), 1)
    return {
        name: Contrast(
            difference, p, detectable_difference(difference.standard_error, difference.degrees_of_freedom, alpha=level)
        )
        for (name, difference), p in zip(differences.items(), adjusted, strict=True)
    }


# -- power ------------------------------------------------------------------------------------------------------------------
def detectable_difference(error: float, freedom: float, *, alpha: float = ALPHA, power: float = POWER) -> float:
    """The true difference that a two-sided t test at level ``alpha`` finds with probability ``power``.

    It is (t_{1 − α/2} + t_power) · standard error: NaN where the standard error is NaN, 0 where it is 0.

    >>> round(detectable_difference(1.0, 1e6), 2)
    2.8
    """
    if not error > 0.0:
        return error
    return (t_quantile(freedom, 1.0 - alpha / 2.0) + t_quantile(freedom, power)) * error


# -- a robust summary (Agarwal et al., 2021) --------------------------------------------------------------------------------
def probability_of_improvement(a: ArrayLike, b: ArrayLike) -> ClusteredMean:
    """Probability that a run of a beats a run of b on the same task, ties counting half; mean over tasks.

    Its error over seeds and tasks is that of the structural components of DeLong, DeLong and Clarke-Pearson (1988): what each run
    contributes as a run of a, and under the same seed as one of b. The interval can exceed [0, 1].

    >>> probability_of_improvement([[0.2], [0.6]], [[0.2], [0.1]]).mean
    0.875

    Args:
        a: float64 (S, T); rows are runs and columns are tasks; all pairs of runs are compared.
        b: float64 (S, T), of the other method under the same seeds.
    """
    x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
    wins = (np.sign(x[:, None, :] - y[None, :, :]) + 1.0) / 2.0  # (S, S, T)
    components = wins.mean(axis=1) + wins.mean(axis=0) - wins.mean()  # (S, T), with the same mean as the wins
    return crossed_mean(components)
