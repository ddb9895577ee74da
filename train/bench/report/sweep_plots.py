"""Plots of swept parameters: an endpoint with its interval over the values of the first parameter, a line per value of the others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from creditflow.train.bench.report.contrasts import Measure
from creditflow.train.bench.report.figures import COLOURS, new_figure, panels, save_figure, tidy
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.report.tables.sweeps import SweptScheme, sweep_measures, sweep_title, swept_schemes

__all__ = ["plot_sweeps"]


def plot_sweeps(suite: Mapping[str, Any], folder: Path, number: int) -> list[tuple[Path, str, str]]:
    """Plot every swept scheme of a suite into ``folder``; returns files, captions and titles of their tables, none without a sweep."""
    if not swept_schemes(suite["schemes"]):
        return []
    measures, names = sweep_measures(suite)
    made = []
    for at, swept in enumerate(swept_schemes(names) if measures else ()):
        path = folder / f"sweep-{number}-{at}.png"
        _plot(swept, measures, path)
        made.append(
            (
                path,
                f"{swept.name} by {', '.join(swept.parameters)}; 95 % intervals of single variants.",
                sweep_title(swept),
            )
        )
    return made


def _plot(swept: SweptScheme, measures: Mapping[str, Measure], path: Path) -> None:
    ticks = list(dict.fromkeys(values[0] for values in swept.values.values()))
    lines = list(dict.fromkeys(values[1:] for values in swept.values.values()))
    figure = new_figure(3.9 * len(measures) + 0.6, 3.6)
    for axes, (text, measure) in panels(figure, measures.items()):
        for i, line in enumerate(lines):
            names = [name for name, values in swept.values.items() if values[1:] == line]
            means = [Estimate.of(measure(name, "")) for name in names]
            axes.errorbar(
                [ticks.index(swept.values[name][0]) + 0.06 * (i - (len(lines) - 1) / 2) for name in names],
                [one.mean for one in means],
                yerr=[[one.mean - one.low for one in means], [one.high - one.mean for one in means]],
                fmt="o-", capsize=3, color=COLOURS[i % len(COLOURS)],
                label=", ".join(f"{p} {v}" for p, v in zip(swept.parameters[1:], line, strict=True)),
            )  # fmt: skip
        axes.set(xlabel=swept.parameters[0], ylabel=text, xticks=range(len(ticks)), xticklabels=ticks)
        tidy(axes)
    if len(lines) > 1:
        figure.axes[0].legend(frameon=False, fontsize=8)
    save_figure(figure, path)
