"""Which metric predicts learning: rank correlations over methods, with intervals over the seeds of the studies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.studies import Study
from creditflow.train.statistics import ClusteredMean, spearman

__all__ = ["correlation_estimate", "mean_correlation"]

Results = Mapping[str, NDArray[np.float64]]


def correlation_estimate(studies: Sequence[Study], metric: str, value: float | None) -> Estimate | None:
    """A rank correlation with the area, mean over studies, with its jackknife interval over layout seeds; None if it is undefined.

    The standard error is that of the pseudo-values (Tukey, 1958; Efron and Stein, 1981). Without two seeds, or where a correlation is
    undefined without one of them, there is no interval.

    Args:
        studies: studies with the same layout seeds.
        metric: name of an endpoint.
        value: the stored correlation over all seeds.
    """
    if value is None:
        return None
    seeds = min(len(next(iter(study.results("area").values()))) for study in studies)
    without = np.array([mean_correlation(studies, metric, leave_out=seed) for seed in range(seeds)])
    if seeds < 2 or not np.isfinite(without).all():
        return Estimate(value, math.nan, math.nan)
    error = math.sqrt((seeds - 1) / seeds * float(((without - without.mean()) ** 2).sum()))
    interval = ClusteredMean(value, error, seeds - 1.0).interval
    return Estimate(value, max(interval.low, -1.0), min(interval.high, 1.0))


def mean_correlation(studies: Sequence[Study], metric: str, leave_out: int | None = None) -> float:
    """Rank correlation over methods of a metric with the area, averaged over the studies where it is defined; NaN if there is none.

    Args:
        studies: the studies.
        metric: name of an endpoint.
        leave_out: index of a seed that is not used; None for all seeds.
    """
    values = [_correlation(study.results(metric), study.results("area"), leave_out) for study in studies]
    known = [value for value in values if math.isfinite(value)]
    return float(np.mean(known)) if known else math.nan


def _correlation(metric: Results, area: Results, leave_out: int | None) -> float:
    both = [name for name in area if name in metric]

    def means(results: Results) -> NDArray[np.float64]:
        kept = (results[name] if leave_out is None else np.delete(results[name], leave_out, axis=0) for name in both)
        return np.array([float(np.mean(values)) if values.size else math.nan for values in kept])

    x, y = means(metric), means(area)
    return spearman(x, y) if np.isfinite(x).all() else math.nan
