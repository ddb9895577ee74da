"""Does the order of two methods depend on choices that should not matter: loss average, centring, scale, optimiser, rate?

Every method has the same level of every factor within a setting, and all settings are crossed. The samples are the layout seeds,
which all settings share: a setting is no sample.

In a document a design is an object with the names of its columns, the factors first, and a list of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import DataError, short_repr
from creditflow.train.bench.report.tidy import Estimate
from creditflow.train.statistics import crossed_mean

__all__ = ["COLUMNS", "Design", "Pair", "design_of", "pairs_of"]

COLUMNS: Final = ("method", "seed", "endpoint", "value")  # after the factors
ENDPOINT: Final = "area"
Floats = NDArray[np.float64]


class Design:
    """The area under the learning curves of every method in every setting of a crossed design.

    Args:
        data: the table as it is stored.

    Attributes:
        factors: levels of every factor, in the order of their first appearance.
        settings: one level of every factor each.
        areas: by method float64 (settings, seeds).

    Raises:
        DataError: columns are missing, a row has another length, or a value is missing or occurs twice.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        columns, rows = data.get("columns"), data.get("rows")
        wanted = ", ".join(COLUMNS)
        if not isinstance(columns, list) or tuple(columns[-len(COLUMNS) :]) != COLUMNS or not isinstance(rows, list):
            raise DataError(f"a table of results ends with the columns {wanted}, got {short_repr(columns)}")
        if any(len(row) != len(columns) for row in rows):
            raise DataError(f"every row of a table of results has {len(columns)} entries, one for each column")
        names = columns[: -len(COLUMNS)]
        values: dict[tuple[Any, ...], float] = {}  # by levels, method and seed
        for *at, endpoint, value in rows:
            if endpoint == ENDPOINT and tuple(at) in values:
                raise DataError(f"{ENDPOINT} occurs twice in a table of results: {short_repr(at)}")
            if endpoint == ENDPOINT:
                values[tuple(at)] = value
        levels, methods, seeds = (list(dict.fromkeys(at)) for at in zip(*(_split(at) for at in values), strict=True))
        self.settings = tuple(dict(zip(names, of_setting, strict=True)) for of_setting in levels)
        self.factors = {name: tuple(dict.fromkeys(setting[name] for setting in self.settings)) for name in names}
        self.seeds = len(seeds)
        missing = [at for at in ((*s, m, u) for m in methods for s in levels for u in seeds) if at not in values]
        if missing:
            raise DataError(f"{ENDPOINT} is missing in a table of results: {short_repr(missing[0])}")
        self.areas = {m: np.array([[values[*s, m, u] for u in seeds] for s in levels], np.float64) for m in methods}

    @property
    def methods(self) -> tuple[str, ...]:
        """Names of the methods."""
        return tuple(self.areas)


def _split(at: tuple[Any, ...]) -> tuple[tuple[Any, ...], str, int]:
    """The levels, the method and the seed of a row."""
    *levels, method, seed = at
    return tuple(levels), method, seed


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


def design_of(suite: Mapping[str, Any]) -> Design | None:
    """The crossed design of a suite; None if it has none."""
    return Design(suite["design"]) if suite.get("design") else None


def pairs_of(design: Design, methods: Sequence[str]) -> list[Pair]:
    """All pairs of methods, those with the largest mean difference first."""
    pairs = [_pair(design, a, b) for a, b in combinations(methods, 2)]
    return sorted(pairs, key=lambda pair: (-pair.difference.mean, pair.better, pair.worse))


def _pair(design: Design, a: str, b: str) -> Pair:
    difference = design.areas[a] - design.areas[b]  # (settings, seeds)
    if difference.mean() < 0.0:
        a, b, difference = b, a, -difference
    signs = [_sign(row) for row in difference]
    levels: dict[str, dict[str, Estimate]] = {}
    factors = []
    for name, of_factor in design.factors.items():
        means = {
            level: difference[[setting[name] == level for setting in design.settings]].mean(axis=0)
            for level in of_factor
        }
        levels[name] = {level: _over_seeds(mean) for level, mean in means.items()}
        apart = any(_sign(x - y) != "level" for x, y in combinations(means.values(), 2))
        if apart and len(set(map(_sign, means.values()))) > 1:
            factors.append(name)
    whole = _over_seeds(difference.mean(axis=0))
    return Pair(a, b, whole, signs.count("+"), signs.count("−"), len(signs), levels, tuple(factors))


def _over_seeds(values: Floats) -> Estimate:
    """Mean of (seeds,) with its interval."""
    return Estimate.of(crossed_mean(values[:, None]))


def _sign(values: Floats) -> str:
    """Return "+" or "−" if the interval of the mean of (seeds,) excludes 0, else "level"."""
    estimate = _over_seeds(values)
    if estimate.low > 0.0:
        return "+"
    return "−" if estimate.high < 0.0 else "level"
