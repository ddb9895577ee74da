"""A plot as plain data: panels of lines with their intervals, and which line looks how. Imports no matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from creditflow.train.bench.methods import base_method, is_control
from creditflow.train.bench.report.summary import main_schemes

__all__ = ["SCHEME_STYLES", "Line", "Panel", "Plot", "drawn_schemes", "line_styles"]

SCHEME_STYLES: Final = 8  # more lines are not told apart
BASELINE_STYLE: Final = "s6"  # in every plot
CONTROL_STYLES: Final = {"oracle_adv": "c0", "oracle_progress": "c1", "stateless": "c2"}


class Line(NamedTuple):
    """One line.

    Attributes:
        name: of the method, or of a value.
        style: "s0" to "s7" for schemes, "c0" to "c3" for controls.
        x, y: its points, of one length.
        low, high: ends of the points' 95 % intervals; empty for none.
        main: whether the interval is shown at first; the others are where the reader points at the name.
    """

    name: str
    style: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    main: bool = True


class Panel(NamedTuple):
    """Lines on common axes.

    Attributes:
        title: what distinguishes the panel.
        x_label, y_label: what the axes show, with units.
        lines: the lines.
        values: names of x = 0, 1, …; empty for an axis of numbers.
        level: height of a horizontal line for comparison; None for none.
    """

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    values: Sequence[str] = ()
    level: float | None = None


@dataclass(frozen=True, slots=True)
class Plot:
    """One plot.

    Attributes:
        suite: name of the suite.
        stem: name of its picture, without suffix.
        caption: sentence that describes it.
        about: title of the table that it belongs to.
        panels: one or more panels.
        log_y: whether the vertical axes are logarithmic.
        marked: whether points are marked; their intervals are then bars, otherwise a band.
        same_y: whether all panels have the same vertical axis.
    """

    suite: str
    stem: str
    caption: str
    about: str
    panels: Sequence[Panel]
    log_y: bool = False
    marked: bool = False
    same_y: bool = False


def drawn_schemes(order: Sequence[str], base: str) -> list[str]:
    """The schemes that get a line: the best one, the baseline, and the best registered ones.

    Args:
        order: schemes, the best first.
        base: the baseline.
    """
    kept = [name for name in order if name in {order[0], base, *main_schemes(order)}] if order else []
    others = [name for name in kept if name != base][: SCHEME_STYLES - 1]
    return [name for name in kept if name == base or name in others]


def line_styles(suite: Mapping[str, Any], order: Sequence[str], base: str) -> dict[str, str]:
    """Style by method: the drawn schemes in their order, the main controls, and the shuffled credit of one scheme.

    Args:
        suite: a suite, with its "controls".
        order: its schemes, the best first.
        base: the baseline.
    """
    free = (f"s{i}" for i in range(SCHEME_STYLES) if f"s{i}" != BASELINE_STYLE)
    styles = {name: BASELINE_STYLE if name == base else next(free) for name in drawn_schemes(order, base)}
    styles |= {name: style for name, style in CONTROL_STYLES.items() if name in suite["controls"]}
    flipped = [base_method(name) for name in suite["controls"] if name.startswith("flipped(")]
    corrupted = next((name for name in flipped if not is_control(name)), "")
    return styles | ({f"shuffled({corrupted})": "c3"} if corrupted else {})
