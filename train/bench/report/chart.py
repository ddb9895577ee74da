"""Confidence intervals of methods on one axis, as positions that a page draws at any width and in any colours."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from creditflow.train.bench.report.plots import Line, Panel, Plot
from creditflow.train.bench.report.statistics import Estimate

__all__ = [
    "MARKS",
    "Chart",
    "ChartRow",
    "DrawnLine",
    "DrawnPanel",
    "DrawnPlot",
    "Interval",
    "chart_of",
    "drawn_plot",
    "round_ticks",
]

CHART_PAD = 2.0  # per cent of the width at both ends
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
        return round(CHART_PAD + (x - lowest) / width * (100 - 2 * CHART_PAD), 2)

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


FAINT: Final = " Faint lines stand out while you point at their name."
MARKS: Final = {  # by style: the outline of a mark around 0, 0, so that points are told apart without their colours
    "s0": "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0z", "s1": "M-3.2 -3.2H3.2V3.2H-3.2z", "s2": "M0 -4.2L4 3H-4z",
    "s3": "M0 -4.6L4.6 0L0 4.6L-4.6 0z", "s4": "M0 4.2L4 -3H-4z", "s5": "M-4 0L0 -1.4V-4H1.4V-1.4H4V1.4H1.4V4H-1.4V1.4H-4z",
    "s6": "M0 -4.4L4.2 -1.4L2.6 3.6H-2.6L-4.2 -1.4z", "s7": "M-2.2 -3.8H2.2L4.4 0L2.2 3.8H-2.2L-4.4 0z",
    "c0": "M0 -5L1.3 -1.5L5 -1.5L2 .8L3.1 4.4L0 2.2L-3.1 4.4L-2 .8L-5 -1.5L-1.3 -1.5z", "c1": "M-.8 -4.6H.8V-.8H4.6V.8H.8V4.6H-.8V.8H-4.6V-.8H-.8z",
    "c2": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0zM-2.4 0a2.4 2.4 0 1 1 4.8 0a2.4 2.4 0 1 1 -4.8 0z", "c3": "M-4 -3L-3 -4L0 -1L3 -4L4 -3L1 0L4 3L3 4L0 1L-3 4L-4 3L-1 0z",
}  # fmt: skip

WIDTH, HEIGHT = 320.0, 180.0  # units of a panel's own coordinates, about pixels
LEFT, RIGHT, TOP, BOTTOM = 38.0, 10.0, 8.0, 20.0
PANEL_PAD: Final = 0.04  # of an axis beyond its data
Span = tuple[float, float]
Mark = tuple[str, float]


class DrawnLine(NamedTuple):
    """A line.

    Attributes:
        name: of the method, or of a value.
        style: class of the style sheet.
        main: whether it is drawn in full strength.
        path: its points as "x,y x,y".
        points: x, y and text of marked points.
        bars: x and both ends of their intervals.
    """

    name: str
    style: str
    main: bool
    path: str
    points: list[tuple[float, float, str]]
    bars: list[tuple[float, float, float]]


class DrawnPanel(NamedTuple):
    """A panel: titles, lines, ticks as pairs of label and position, and the height of the line for comparison."""

    title: str
    x_label: str
    y_label: str
    lines: list[DrawnLine]
    x_ticks: list[Mark]
    y_ticks: list[Mark]
    level: float | None


class DrawnPlot(NamedTuple):
    """A plot: its panels, its legend as pairs of name and style (empty for one line), whether points are marked, and its caption."""

    panels: list[DrawnPanel]
    legend: list[tuple[str, str]]
    marked: bool
    caption: str


def drawn_plot(plot: Plot) -> DrawnPlot:
    """Positions of everything on a plot."""
    scale: Callable[[float], float] = math.log10 if plot.log_y else float
    common = _span((y for panel in plot.panels for y in _heights(panel)), scale) if plot.same_y else None
    legend = {line.name: line.style for panel in plot.panels for line in panel.lines}
    return DrawnPlot(
        [_drawn_panel(plot, panel, scale, common) for panel in plot.panels],
        list(legend.items()) if len(legend) > 1 else [],
        plot.marked,
        plot.caption + (FAINT if any(not line.main for panel in plot.panels for line in panel.lines) else ""),
    )


def _drawn_panel(plot: Plot, panel: Panel, scale: Callable[[float], float], common: Span | None) -> DrawnPanel:
    across = (
        (-0.4, len(panel.values) - 0.6) if panel.values else _span((x for line in panel.lines for x in line.x), float)
    )
    up = common or _span(_heights(panel), scale)

    def x_at(x: float) -> float:
        return round(LEFT + (x - across[0]) / (across[1] - across[0]) * (WIDTH - LEFT - RIGHT), 1)

    def y_at(y: float) -> float:
        return round(HEIGHT - BOTTOM - (scale(y) - up[0]) / (up[1] - up[0]) * (HEIGHT - TOP - BOTTOM), 1)

    x_ticks = list(enumerate(panel.values)) if panel.values else [(x, f"{x:g}") for x in round_ticks(*across)]
    y_ticks = _powers(*up) if plot.log_y else round_ticks(*up)
    return DrawnPanel(
        panel.title,
        panel.x_label,
        panel.y_label,
        [_drawn_line(line, x_at, y_at, marked=plot.marked) for line in panel.lines],
        [(text, x_at(x)) for x, text in x_ticks],
        [(f"{y:g}", y_at(y)) for y in y_ticks],
        None if panel.level is None else y_at(panel.level),
    )


def _drawn_line(
    line: Line, x_at: Callable[[float], float], y_at: Callable[[float], float], *, marked: bool
) -> DrawnLine:
    at = [x_at(x) for x in line.x]
    low, high = [y_at(y) for y in line.low if math.isfinite(y)], [y_at(y) for y in line.high if math.isfinite(y)]
    complete = bool(at) and len(low) == len(high) == len(at)
    return DrawnLine(
        line.name,
        line.style,
        line.main,
        _path(zip(at, map(y_at, line.y), strict=True)),
        [(x, y_at(line.y[i]), _text(line, i)) for i, x in enumerate(at)] if marked else [],
        list(zip(at, low, high, strict=True)) if complete and marked else [],
    )


def _text(line: Line, i: int) -> str:
    low, high = (line.low[i], line.high[i]) if line.low else (math.nan, math.nan)
    return f"{line.name}: {Estimate(line.y[i], low, high).text(3)}"


def _path(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in points)


def _heights(panel: Panel) -> list[float]:
    """Every height that must be visible: of all points, of their intervals, and of the line for comparison."""
    heights = [y for line in panel.lines for y in (*line.y, *line.low, *line.high)]
    return [*heights, *([] if panel.level is None else [panel.level])]


def _span(values: Iterable[float], scale: Callable[[float], float]) -> Span:
    finite = [scale(value) for value in values if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=1.0)
    pad = PANEL_PAD * (high - low) or 0.5
    return low - pad, high + pad


def _powers(low: float, high: float) -> Sequence[float]:
    """Ticks of a logarithmic axis from 10^low to 10^high: powers of ten, with 2 and 5 times them where there are few.

    >>> _powers(-0.1, 1.1)
    [1.0, 2.0, 5.0, 10.0]
    """
    factors = (1, 2, 5) if high - low < 2.0 else (1,)
    ticks = (f * 10.0**power for power in range(math.floor(low), math.ceil(high) + 1) for f in factors)
    return [tick for tick in ticks if low <= math.log10(tick) <= high]
