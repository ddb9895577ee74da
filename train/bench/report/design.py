"""Does the order of two methods depend on choices that should not matter: loss average, centring, scale, optimiser, rate?

Every method has the same level of every factor within a setting, and all settings are crossed. The samples are the layout seeds,
which all settings share: a setting is no sample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.observations import Observations
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.statistics import crossed_mean

__all__ = ["ENDPOINT", "Pair", "design_of", "over_seeds", "pairs_of", "unstable_rivals"]

ENDPOINT: Final = "area"


class Pair(NamedTuple):
    """Two methods in every setting of a design.

    Attributes:
        better, worse: names of the methods; the first has the larger mean over all settings.
        difference: the first minus the second, mean over all settings.
        holds, turns: numbers of settings in which the interval lies above 0, and below 0.
        settings: number of settings.
        levels: by factor and level the mean difference over the settings with this level.
        factors: the factors on which the sign depends: it is not the same at all of their levels, and the difference
            between two levels is more than chance (its interval excludes 0).
    """

    better: str
    worse: str
    difference: Estimate
    holds: int
    turns: int
    settings: int
    levels: Mapping[str, Mapping[str, Estimate]]
    factors: tuple[str, ...]


def sign(estimate: Estimate) -> str:
    """Return "+" or "−" if the interval excludes 0, else "level"."""
    if estimate.low > 0.0:
        return "+"
    return "−" if estimate.high < 0.0 else "level"


def design_of(suite: Mapping[str, Any]) -> Observations | None:
    """The crossed design of a suite; None if it has none."""
    return Observations.from_json(suite["design"]) if suite.get("design") else None


def pairs_of(design: Observations, methods: Sequence[str], endpoint: str = ENDPOINT) -> list[Pair]:
    """All pairs of methods, those with the largest mean difference first."""
    pairs = [_pair(design, a, b, endpoint) for a, b in combinations(methods, 2)]
    return sorted(pairs, key=lambda pair: (-pair.difference.mean, pair.better, pair.worse))


def _pair(design: Observations, a: str, b: str, endpoint: str) -> Pair:
    difference = design.values(endpoint, a) - design.values(endpoint, b)  # (settings, seeds)
    if difference.mean() < 0.0:
        a, b, difference = b, a, -difference
    signs = [sign(over_seeds(row[None])) for row in difference]
    levels: dict[str, dict[str, Estimate]] = {}
    factors = []
    for name, of_factor in design.factors.items():
        rows = {level: difference[[setting[name] == level for setting in design.settings]] for level in of_factor}
        levels[name] = {level: over_seeds(of_level) for level, of_level in rows.items()}
        apart = any(sign(over_seeds(_row(x) - _row(y))) != "level" for x, y in combinations(rows.values(), 2))
        if apart and len(set(map(sign, levels[name].values()))) > 1:
            factors.append(name)
    return Pair(a, b, over_seeds(difference), signs.count("+"), signs.count("−"), len(signs), levels, tuple(factors))


def _row(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over settings: float64 (1, seeds)."""
    mean: NDArray[np.float64] = values.mean(axis=0, keepdims=True)
    return mean


def over_seeds(values: NDArray[np.float64]) -> Estimate:
    """Mean over settings (rows) with its interval over seeds (columns)."""
    return Estimate.of(crossed_mean(values.mean(axis=0)[:, None]))


def unstable_rivals(suite: Mapping[str, Any], name: str) -> dict[str, tuple[str, ...]]:
    """The methods whose order with ``name`` depends on a factor of the suite's design, with these factors."""
    design = design_of(suite)
    if design is None or name not in design.methods:
        return {}
    pairs = {rival: _pair(design, name, rival, ENDPOINT) for rival in design.methods if rival != name}
    return {rival: pair.factors for rival, pair in pairs.items() if pair.factors}
