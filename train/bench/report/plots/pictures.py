"""Plots as PNG files, drawn by matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from creditflow.train.bench.report.figures import COLOURS, new_figure, panels, require_plots, save_figure, tidy
from creditflow.train.bench.report.plots.plot import Line, Plot

__all__ = ["draw_plots"]

DASHES: Final = ("-", "--", "-.", (0, (1, 1)))  # so that coinciding lines stay visible
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "h")
CONTROLS: Final[Mapping[str, Mapping[str, Any]]] = {
    "c0": {"color": "#444444", "linestyle": ":", "marker": "*"},
    "c1": {"color": "#444444", "linestyle": (0, (1, 3)), "marker": "+"},
    "c2": {"color": "#777777", "linestyle": "--", "marker": "1"},
    "c3": {"color": "#999999", "linestyle": "-.", "marker": "x"},
}


def draw_plots(plots: Sequence[Plot], folder: Path) -> list[Path]:
    """Draw every plot into ``folder``; returns the files.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    require_plots()
    folder.mkdir(parents=True, exist_ok=True)
    return [_draw(plot, folder / f"{plot.stem}.png") for plot in plots]


def _draw(plot: Plot, path: Path) -> Path:
    names = {line.name for panel in plot.panels for line in panel.lines}
    figure = new_figure(3.2 * len(plot.panels) + 2.2 * (len(names) > 1), 3.6)
    for axes, panel in panels(figure, plot.panels, sharey=plot.same_y):
        for line in panel.lines:
            _draw_line(axes, line, marked=plot.marked)
        if panel.level is not None:
            axes.axhline(panel.level, color="#888888", linestyle=":", linewidth=1.2)
        axes.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label)
        if panel.values:
            axes.set(xticks=range(len(panel.values)), xticklabels=panel.values)
        if plot.log_y:
            axes.set_yscale("log")
        tidy(axes)
    if plot.same_y:
        for axes in figure.axes[1:]:
            axes.set_ylabel("")
    if len(names) > 1:
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=9)
    return save_figure(figure, path)


def _draw_line(axes: Any, line: Line, *, marked: bool) -> None:
    look = _look(line.style)
    axes.plot(
        line.x, line.y, label=line.name, linewidth=1.6, markersize=5.5, **(look if marked else look | {"marker": ""})
    )
    if marked and line.low:
        errors = [
            [y - low for y, low in zip(line.y, line.low, strict=True)],
            [high - y for y, high in zip(line.y, line.high, strict=True)],
        ]
        axes.errorbar(line.x, line.y, yerr=errors, fmt="none", capsize=3, color=look["color"])
    elif line.low and line.main:
        axes.fill_between(line.x, line.low, line.high, color=look["color"], alpha=0.15, linewidth=0)


def _look(style: str) -> dict[str, Any]:
    if style in CONTROLS:
        return dict(CONTROLS[style])
    i = int(style[1:])
    return {"color": COLOURS[i], "linestyle": DASHES[i % len(DASHES)], "marker": MARKERS[i]}
