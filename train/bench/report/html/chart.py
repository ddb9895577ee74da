"""Confidence intervals of methods on one axis, as positions that a page draws at any width and in any colours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from creditflow.train.bench.report.statistics import Estimate

__all__ = ["Chart", "ChartRow", "chart_of", "round_ticks"]

PAD = 2.0  # per cent of the width at both ends
MAX_TICKS = 6


class ChartRow(NamedTuple):
    """One interval.

    Attributes:
        name: name of the method, or of what is compared.
        note: more about it; "" for none.
        text: mean and interval in figures.
        kind: "best", "scheme" or "control", for the colour.
        mean, low, high: positions, in per cent of the width.
    """

    name: str
    note: str
    text: str
    kind: str
    mean: float
    low: float
    high: float


class Chart(NamedTuple):
    """Intervals on a common axis.

    Attributes:
        rows: the intervals, from the top.
        ticks: label and position of every tick, in per cent of the width.
        zero: position of 0.
        unit: what the axis shows, with its unit.
    """

    rows: list[ChartRow]
    ticks: list[tuple[str, float]]
    zero: float
    unit: str


def chart_of(rows: Sequence[tuple[str, str, str, str, Estimate]], unit: str) -> Chart | None:
    """The chart of some estimates; None if there is none.

    Args:
        rows: name, note, text, kind and estimate of each row.
        unit: what the axis shows, with its unit.
    """
    if not rows:
        return None
    ends = [end for *_, estimate in rows for end in _ends(estimate)]
    lowest, highest = min(0.0, *ends), max(0.0, *ends)
    width = max(highest - lowest, 1e-9)

    def at(x: float) -> float:
        return round(PAD + (x - lowest) / width * (100 - 2 * PAD), 2)

    drawn = [
        ChartRow(name, note, text, kind, at(estimate.mean), *(at(end) for end in _ends(estimate)))
        for name, note, text, kind, estimate in rows
    ]
    return Chart(drawn, [(f"{x:g}", at(x)) for x in round_ticks(lowest, highest)], at(0.0), unit)


def _ends(estimate: Estimate) -> tuple[float, float]:
    """The ends of the interval, or the mean twice if there is none."""
    return (estimate.low, estimate.high) if math.isfinite(estimate.low) else (estimate.mean, estimate.mean)


def round_ticks(low: float, high: float) -> list[float]:
    """Round numbers from low to high, 0 among them, at most ``MAX_TICKS``.

    >>> round_ticks(-0.03, 0.17)
    [0.0, 0.05, 0.1, 0.15]
    """
    width = max(high - low, 1e-9)
    power = 10.0 ** math.floor(math.log10(width / MAX_TICKS))
    step = next(step for factor in (1, 2, 5, 10, 20) if width / (step := factor * power) <= MAX_TICKS - 1)
    return [round(i * step, 10) + 0.0 for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
