"""Comparisons of schemes: each with the baseline (Holm's adjustment over the schemes), and the best with all others (over pairs)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.report.summary import Summary
from creditflow.train.bench.studies import Study
from creditflow.train.statistics import ClusteredMean, Contrast, contrasts_of, crossed_mean, stratified_mean

__all__ = [
    "Leader",
    "Measure",
    "against",
    "contrast_texts",
    "leader_of",
    "p_text",
    "played_measure",
    "study_measure",
    "table_measure",
]

Measure = Callable[[str, str], ClusteredMean]  # (method, other) → its mean minus the other's, paired; "" for no other


def table_measure(summary: Summary, metric: str) -> Measure:
    """M2 ("gain", "gain_small") or "area" on tasks with exact values."""
    return lambda method, over: summary.over_tasks(method, metric, over)


def played_measure(rows: Mapping[str, Any]) -> Measure:
    """Area on tasks that are played through their environment; ``rows`` by method."""

    def mean(method: str, over: str) -> ClusteredMean:
        return _difference(rows[method]["area_by_seed"], rows[over]["area_by_seed"] if over else None)

    return mean


def study_measure(studies: Sequence[Study], endpoint: str) -> Measure:
    """An endpoint of studies; several studies are strata of equal weight."""
    results = [study.results(endpoint) for study in studies]

    def mean(method: str, over: str) -> ClusteredMean:
        return stratified_mean([_difference(found[method], found[over] if over else None) for found in results])

    return mean


def _difference(own: Any, other: Any) -> ClusteredMean:
    values = np.asarray(own, np.float64)
    return crossed_mean(values if other is None else values - np.asarray(other, np.float64))


def against(base: str, schemes: Sequence[str], measure: Measure) -> dict[str, Contrast]:
    """The planned contrasts: every scheme minus the baseline, as one family."""
    return contrasts_of({name: measure(name, base) for name in schemes if name != base})


@dataclass(frozen=True, slots=True)
class Leader:
    """The scheme with the largest mean.

    Attributes:
        name: name of the scheme.
        mean: its mean.
        tied: the schemes from which it is not separated, the best first.
        detectable: the largest of their detectable differences; NaN if there are none.
    """

    name: str
    mean: Estimate
    tied: tuple[str, ...]
    detectable: float


def leader_of(schemes: Sequence[str], measure: Measure) -> Leader:
    """The best of the schemes; Holm's adjustment is over all pairs, because the best one is known only afterwards."""
    means = {name: measure(name, "") for name in schemes}
    order = sorted(schemes, key=lambda name: (-means[name].mean, name))
    pairs = contrasts_of({f"{a} {b}": measure(a, b) for a, b in combinations(order, 2)})
    with_best = {name: pairs[f"{order[0]} {name}"] for name in order[1:]}
    tied = tuple(name for name, contrast in with_best.items() if not contrast.separates)
    known = [with_best[name].detectable for name in tied if not math.isnan(with_best[name].detectable)]
    return Leader(order[0], Estimate.of(means[order[0]]), tied, max(known, default=math.nan))


def contrast_texts(contrast: Contrast) -> list[str]:
    """Cells of a table: the difference with its interval, the adjusted p-value, and the detectable difference."""
    detectable = "–" if math.isnan(contrast.detectable) else f"{contrast.detectable:.3f}"
    return [Estimate.of(contrast.difference).text(sign="+"), p_text(contrast.p_adjusted), detectable]


def p_text(p: float) -> str:
    """A p-value with three decimal places."""
    if math.isnan(p):
        return "–"
    return "< .001" if p < 0.001 else f"{p:.3f}".removeprefix("0") if p < 0.9995 else "1"
