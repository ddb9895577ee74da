"""Plots of swept parameters: an endpoint with its interval over the values of the first parameter, a line per value of the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from creditflow.train.bench.report.contrasts import Measure
from creditflow.train.bench.report.plots.plot import SCHEME_STYLES, Line, Panel, Plot
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.report.tables.sweeps import SweptScheme, sweep_measures, sweep_title, swept_schemes

__all__ = ["sweep_plots"]


def sweep_plots(suite: Mapping[str, Any], number: int) -> list[Plot]:
    """A plot of every swept scheme of a suite; none without a sweep."""
    if not swept_schemes(suite["schemes"]):
        return []
    measures, names = sweep_measures(suite)
    return [
        Plot(
            suite["name"],
            f"sweep-{number}-{at}",
            f"{swept.name} by {', '.join(swept.parameters)}; 95 % intervals of single variants.",
            sweep_title(swept),
            [_panel(swept, text, measure) for text, measure in measures.items()],
            marked=True,
        )
        for at, swept in enumerate(swept_schemes(names) if measures else ())
    ]


def _panel(swept: SweptScheme, text: str, measure: Measure) -> Panel:
    ticks = list(dict.fromkeys(values[0] for values in swept.values.values()))
    others = list(dict.fromkeys(values[1:] for values in swept.values.values()))
    lines = []
    for i, other in enumerate(others):
        names = [name for name, values in swept.values.items() if values[1:] == other]
        means = [Estimate.of(measure(name, "")) for name in names]
        label = ", ".join(f"{p} {v}" for p, v in zip(swept.parameters[1:], other, strict=True)) or swept.name
        aside = 0.06 * (i - (len(others) - 1) / 2)
        lines.append(
            Line(
                label,
                f"s{i % SCHEME_STYLES}",
                [ticks.index(swept.values[name][0]) + aside for name in names],
                [one.mean for one in means],
                [one.low for one in means],
                [one.high for one in means],
            )
        )
    return Panel(text, swept.parameters[0], _unit(text), lines, ticks)


def _unit(endpoint: str) -> str:
    return "fraction of the exact gradient's gain" if endpoint.startswith("gain") else "mean success during training"
