"""The tables of a crossed design: does the order of two methods hold, and on which factor does it depend?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.observations import Observations
from creditflow.train.bench.report.design import ENDPOINT, Pair, design_of, over_seeds, pairs_of
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.report.summary import baseline
from creditflow.train.bench.report.tables.table import Table

__all__ = ["design_tables"]

OPTIMISER: Final = "optimiser"
ADAM: Final = "Adam"


def design_tables(suite: Mapping[str, Any]) -> list[Table]:
    """The tables of a suite's design; none if it has none."""
    design = design_of(suite)
    if design is None:
        return []
    methods = [name for name in design.methods if "oracle" not in name]
    pairs = pairs_of(design, methods)
    return [_order_table(design, pairs), _level_table(design, pairs), _rate_table(design, design.methods)]


def _order_table(design: Observations, pairs: Sequence[Pair]) -> Table:
    rows = [["pair", "difference [95 % CI]", "holds in", "turns in", "the sign depends on"]]
    for pair in pairs:
        texts = [
            f"{name} ({', '.join(f'{level} {points(value)}' for level, value in pair.levels[name].items())})"
            for name in pair.factors
        ]
        count = pair.settings
        rows.append(
            [f"{pair.better} − {pair.worse}", pair.difference.times(100).text(1, "+"), f"{pair.holds} of {count}",
             f"{pair.turns} of {count}", "; ".join(texts) or "no factor"]
        )  # fmt: skip
    factors = "; ".join(f"{name}: {', '.join(levels)}" for name, levels in design.factors.items())
    return Table(
        "Does the order hold?",
        f"Area under the curve of exact success, percentage points, in {len(design.settings)} settings: {factors}. In each, all methods "
        f"have the same level of every factor. Means over settings; intervals: 95 %, over {len(design.seeds)} layout seeds. An order "
        "holds (turns) in a setting if its interval lies above (below) 0. A sign is +, − or level (the interval contains 0); it depends "
        "on a factor if two of its levels have different signs and two of them differ by more than chance.",
        rows,
        len(rows) - 1,
        tuple(pair.difference.times(100) for pair in pairs),
        "Does the order of two methods depend on choices that should not matter?",
        "difference of the areas, in percentage points, mean over all settings",
    )


def _level_table(design: Observations, pairs: Sequence[Pair]) -> Table:
    heads = [f"{name}: {level}" for name, levels in design.factors.items() for level in levels]
    rows = [["pair", *heads]]
    for pair in pairs:
        cells = [points(value) for by_level in pair.levels.values() for value in by_level.values()]
        rows.append([f"{pair.better} − {pair.worse}", *cells])
    return Table(
        "Differences by factor",
        "As above, over the settings with one level; ± is half the 95 % interval over layout seeds.",
        rows,
        len(rows) - 1,
        question="By which factor does the order turn?",
    )


def points(estimate: Estimate) -> str:
    """An estimate of a success rate in percentage points."""
    return estimate.times(100).short(1, "+")


def _rate_table(design: Observations, methods: Sequence[str]) -> Table:
    rates = [level for level in design.factors.get(OPTIMISER, ()) if level.startswith(ADAM)]
    base = baseline(list(methods))
    own = {name: _own_rate(design, name, rates) for name in methods} if rates else {}
    rows = [["method", f"minus {base} [95 % CI]", "area", *rates]]
    for name, (values, chosen) in sorted(own.items(), key=lambda item: -float(item[1][0].mean())):
        lead = "–" if name == base else over_seeds(values - own[base][0]).times(100).text(1, "+")
        rows.append([name, lead, over_seeds(values).times(100).short(1), *(str(chosen.count(rate)) for rate in rates)])
    return Table(
        "Every method at its own rate of Adam",
        "The rate with the largest area over the other layout seeds, whose tasks are different ones; on the right, how often each was "
        "chosen. Mean over the levels of all other factors, percentage points.",
        rows,
        len(rows) - 1,
        question="Does the order hold where every method has the rate that suits it?",
    )


def _own_rate(design: Observations, method: str, rates: Sequence[str]) -> tuple[NDArray[np.float64], list[str]]:
    """float64 (1, seeds): the area at the rate that is best over all other seeds; and the rate chosen for each seed."""
    means = np.stack([design.values(ENDPOINT, method, optimiser=rate).mean(axis=0) for rate in rates])  # (rates, seeds)
    others = (means.sum(axis=1, keepdims=True) - means) / max(means.shape[1] - 1, 1)
    best = others.argmax(axis=0)
    return means[best, np.arange(means.shape[1])][None], [rates[i] for i in best.tolist()]
