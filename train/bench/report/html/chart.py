"""Confidence intervals of methods on one axis, as positions that a page draws at any width and in any colours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from creditflow.train.bench.report.statistics import Estimate

__all__ = ["Chart", "ChartRow", "Interval", "chart_of", "round_ticks"]

PAD = 2.0  # per cent of the width at both ends
MAX_TICKS = 6


class Interval(NamedTuple):
    """What a row shows.

    Attributes:
        name: name of the method, or of what is compared.
        note: more about it; "" for none.
        text: mean and interval in figures.
        kind: "best", "scheme" or "control", for the colour.
        estimate: the interval.
        title: what the rows from here on are about; "" to go on with the one above.
        mark: a value to compare with; None for none.
    """

    name: str
    note: str
    text: str
    kind: str
    estimate: Estimate
    title: str = ""
    mark: float | None = None


class ChartRow(NamedTuple):
    """One interval as it is drawn.

    Attributes:
        name, note, text, kind, title: as in ``Interval``.
        mean, low, high: positions, in per cent of the width.
        mark: position of the value to compare with; None for none.
    """

    name: str
    note: str
    text: str
    kind: str
    title: str
    mean: float
    low: float
    high: float
    mark: float | None


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


def chart_of(rows: Sequence[Interval], unit: str) -> Chart | None:
    """The chart of some estimates; None if there is none.

    Args:
        rows: the rows, from the top.
        unit: what the axis shows, with its unit.
    """
    if not rows:
        return None
    ends = [end for row in rows for end in _ends(row.estimate)] + [row.mark for row in rows if row.mark is not None]
    lowest, highest = min(0.0, *ends), max(0.0, *ends)
    width = max(highest - lowest, 1e-9)

    def at(x: float) -> float:
        return round(PAD + (x - lowest) / width * (100 - 2 * PAD), 2)

    drawn = [
        ChartRow(
            name=row.name,
            note=row.note,
            text=row.text,
            kind=row.kind,
            title=row.title,
            mean=at(row.estimate.mean),
            low=at(_ends(row.estimate)[0]),
            high=at(_ends(row.estimate)[1]),
            mark=None if row.mark is None else at(row.mark),
        )
        for row in rows
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
