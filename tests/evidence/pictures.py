"""The style of the studies' pictures: methods as marks, the control as a grey band, perfect credit as a tick at the top.

At most ``MARKS`` methods are drawn, so that a picture is read at a glance; the page's tables have them all. A mark is open where its interval
contains zero, so that nothing is told by colour alone. The ground is white, on which a picture is read in dark pages too.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from creditflow.train.bench.report.tidy import Estimate

__all__ = ["MARKS", "Shown", "draw"]

MARKS: Final = 5
INK, BLUE, BAND = "#1f2328", "#0072b2", "#d9dde1"  # blue of the palette of Okabe and Ito
ACROSS: Final = 4  # panels side by side
NOTE_CHARACTERS: Final = 62  # of a line below a panel


class Shown(NamedTuple):
    """A panel.

    Attributes:
        title: what distinguishes it from the others.
        rows: the means with their intervals by method, the first at the top.
        control: drawn as a band; None for none.
        perfect: mean of perfect credit; None for none.
    """

    title: str
    rows: Mapping[str, Estimate]
    control: Estimate | None = None
    perfect: float | None = None


def draw(
    panels: Sequence[Shown], path: Path, x_label: str, *, control: str = "", perfect: str = "", alike: bool = True
) -> None:
    """Draw panels side by side.

    Args:
        panels: the panels.
        path: PNG to write.
        x_label: what the horizontal axis shows, with its unit.
        control, perfect: what the band and the tick are called below the picture.
        alike: whether all panels have one horizontal axis.

    Raises:
        ValueError: a panel has more than ``MARKS`` rows.
    """
    from matplotlib.figure import Figure

    lines = -(-len(panels) // ACROSS)
    across = min(len(panels), ACROSS)
    figure = Figure(figsize=(3.4 * across + 1.0, 2.5 * lines + 0.5), layout="constrained", facecolor="white")
    grid = figure.subplots(lines, across, sharex=alike, squeeze=False).flatten()
    for axes, panel in zip(grid, panels, strict=False):
        _panel(axes, panel)
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    notes = []
    if any(panel.control is not None for panel in panels):
        notes.append(f"grey band: {control}")
    if any(panel.perfect is not None for panel in panels):
        notes.append(f"tick at the top: {perfect}")
    if not all(_clear(estimate) for panel in panels for estimate in panel.rows.values()):
        notes.append("open mark: the interval contains 0")
    wrapped = textwrap.wrap(", ".join(notes), NOTE_CHARACTERS * min(len(panels), ACROSS))
    figure.supxlabel("\n".join([x_label, *wrapped]), fontsize=9, color=INK)
    figure.savefig(path, dpi=110)


def _panel(axes: Any, panel: Shown) -> None:
    if len(panel.rows) > MARKS:
        raise ValueError(
            f"{panel.title}: at most {MARKS} marks expected, got {len(panel.rows)}; choose those that the page is about"
        )
    if panel.control is not None:
        axes.axvspan(panel.control.low, panel.control.high, color=BAND, linewidth=0)
    if panel.perfect is not None:
        axes.plot(
            [panel.perfect] * 2,
            [0.93, 1.0],
            color=INK,
            linewidth=2.5,
            transform=axes.get_xaxis_transform(),
            clip_on=False,
        )
    for height, estimate in enumerate(reversed(list(panel.rows.values()))):
        axes.plot([estimate.low, estimate.high], [height, height], color=BLUE, linewidth=2)
        axes.plot(
            [estimate.mean],
            [height],
            "o",
            color=BLUE,
            markerfacecolor=BLUE if _clear(estimate) else "white",
            markersize=7,
        )
    axes.axvline(0.0, color=INK, linewidth=0.8)
    axes.set_yticks(range(len(panel.rows)), list(panel.rows)[::-1], fontsize=9)
    axes.set_ylim(-0.6, len(panel.rows) - 0.2)
    axes.set_title(panel.title, fontsize=10)
    axes.tick_params(axis="x", labelsize=9, labelbottom=True)
    axes.spines[["top", "right"]].set_visible(False)


def _clear(estimate: Estimate) -> bool:
    return estimate.low > 0.0 or estimate.high < 0.0
