"""The plots of every suite: bias against variance, learning curves of a table per task, of a shared policy, and through an environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from creditflow.train.bench.report.contrasts import Measure, played_measure, table_measure
from creditflow.train.bench.report.plots.plot import Line, Panel, Plot, line_styles
from creditflow.train.bench.report.plots.sweeps import sweep_plots
from creditflow.train.bench.report.summary import Summary, baseline
from creditflow.train.bench.report.tables.shared import SHARED_TITLE, methods_in, over_seeds, standard_studies
from creditflow.train.bench.report.tables.table import AREA_TITLE, METRICS_TITLE, ordered
from creditflow.train.bench.studies import Study

__all__ = ["left_out", "main_names", "styles_by_score", "suite_plots"]

EXACT: Final = "oracle_adv"
CellRow = Mapping[str, Any]


def suite_plots(document: Mapping[str, Any]) -> list[Plot]:
    """The plots of all suites of a document."""
    plots = []
    for number, suite in enumerate(document["suites"]):
        if "cells" in suite:
            plots += _exact_plots(suite, number)
        elif "variations" in suite:
            plots += _shared_plots(suite, number)
        elif "rows" in suite:
            plots.append(_played_plot(suite, number))
        plots += sweep_plots(suite, number)
    return plots


def styles_by_score(suite: Mapping[str, Any], names: Sequence[str], measure: Measure) -> dict[str, str]:
    """Style by method of the drawn methods, the best scheme first.

    Args:
        suite: a suite, with its "schemes" and "controls".
        names: the methods that were measured.
        measure: what schemes are ordered by.
    """
    schemes = ordered([n for n in suite["schemes"] if n in names], lambda name: measure(name, "").mean)
    base = baseline([*schemes, *suite["controls"]])
    return {name: style for name, style in line_styles(suite, schemes, base).items() if name in names}


def main_names(styles: Mapping[str, str]) -> set[str]:
    """The best scheme, the baseline and the exact advantage: the lines whose intervals are always shown."""
    return {*list(styles)[:1], baseline(list(styles)), EXACT} if styles else set()


def left_out(suite: Mapping[str, Any], styles: Mapping[str, str]) -> str:
    """What the caption says of schemes without a line."""
    drawn = sum(name in styles for name in suite["schemes"])
    return "" if drawn == len(suite["schemes"]) else " Schemes without a line are in the table."


def _lines(styles: Mapping[str, str], points: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> list[Line]:
    """A line without interval for every drawn method; ``points`` has x and y by method."""
    return [Line(name, style, *points[name]) for name, style in styles.items()]


def _exact_plots(suite: Mapping[str, Any], number: int) -> list[Plot]:
    summary = Summary(suite["cells"])
    names = summary.learned or summary.methods
    styles = styles_by_score(suite, names, table_measure(summary, "area" if summary.learned else "gain"))
    plots = [_bias_variance(suite, styles, number)]
    return [*plots, _curves(suite, styles, number)] if summary.learned else plots


def _bias_variance(suite: Mapping[str, Any], styles: Mapping[str, str], number: int) -> Plot:
    """One line per method, one point per group size: squared bias (mean) and variance (median), aliased cells apart."""
    cells: Sequence[CellRow] = [c for c in suite["cells"] if c["offline"]]
    parts = {
        "distinct text keys": [c for c in cells if c["kind"] != "alias"],
        "aliased text keys": [c for c in cells if c["kind"] == "alias"],
    }

    def points(chosen: Sequence[CellRow], name: str) -> tuple[list[float], list[float]]:
        found = []
        for size in sorted({c["size"] for c in chosen}):
            rows = [c["offline"][name] for c in chosen if c["size"] == size]
            bias = [row["bias2"] for row in rows if row["bias2"] is not None]
            variance = [row["variance"] for row in rows if row["variance"] is not None]
            if bias and variance:
                found.append((float(np.mean(bias)), float(np.median(variance))))
        return [x for x, _ in found], [y for _, y in found]

    panels = [
        Panel(
            title,
            "squared bias of the gradient direction, relative to the exact gradient's squared length",
            "variance (log scale, same unit as bias)",
            [line for line in _lines(styles, {name: points(chosen, name) for name in styles}) if line.x],
        )
        for title, chosen in parts.items()
        if chosen
    ]
    sizes = ", ".join(str(g) for g in sorted({c["size"] for c in cells}))
    return Plot(
        suite["name"],
        f"bias-variance-{number}",
        f"Bias and variance of the sampled gradient (M3), one point per group size ({sizes}; larger groups have less variance). "
        "Lower left is better; more rollouts reduce the variance but not the bias. Means and medians over cells, without intervals: "
        "the cells differ on purpose." + left_out(suite, styles),
        METRICS_TITLE,
        panels,
        log_y=True,
        marked=True,
    )


def _curves(suite: Mapping[str, Any], styles: Mapping[str, str], number: int) -> Plot:
    """Mean exact success over the turn budget, one panel for each kind of task."""
    cells: Sequence[CellRow] = [c for c in suite["cells"] if c["curves"]]

    def points(kind: str, name: str) -> tuple[list[float], list[float]]:
        mean = np.mean([c["curves"][name]["points"] for c in cells if c["kind"] == kind], axis=0)
        return np.linspace(0.0, 100.0, len(mean)).tolist(), mean.tolist()

    panels = [
        Panel(
            kind,
            "environment turns, in per cent of the turn budget",
            "exact success rate",
            _lines(styles, {name: points(kind, name) for name in styles}),
        )
        for kind in dict.fromkeys(c["kind"] for c in cells)
    ]
    return Plot(
        suite["name"],
        f"curves-{number}",
        "Exact success rate while a tabular policy is trained, mean over the cells of each kind of task; the intervals of the areas under "
        "these curves are above." + left_out(suite, styles),
        AREA_TITLE,
        panels,
        same_y=True,
    )


def _shared_plots(suite: Mapping[str, Any], number: int) -> list[Plot]:
    """Mean exact success over the updates, one panel per kind of task; training and held-out tasks apart."""
    studies = [Study.from_json(row) for row in suite["studies"]]
    standard = standard_studies(studies)
    shown = [(study, suite["curves"][studies.index(study)]) for study in standard]
    names = [name for name in methods_in(standard, "area") if all(name in curves for _, curves in shown)]
    styles, updates = styles_by_score(suite, names, over_seeds(standard, "area")), suite["updates"]

    def points(curve: Sequence[float]) -> tuple[list[float], Sequence[float]]:
        return np.minimum(np.arange(len(curve)) * updates["every"], updates["count"]).tolist(), curve

    def plot(side: int, tasks: str, stem: str) -> Plot:
        panels = [
            Panel(
                study.kind if study.keys == "distinct" else f"{study.kind}, {study.keys} keys",
                "update (equal KL divergence)",
                f"exact success rate, {tasks}",
                _lines(styles, {name: points(curves[name][side]) for name in styles}),
            )
            for study, curves in shown
        ]
        return Plot(
            suite["name"],
            f"{stem}-{number}",
            f"Exact success rate on {tasks} while one policy is trained on many tasks, mean over layout seeds; the intervals of the areas "
            "under these curves are above and in the table." + left_out(suite, styles),
            SHARED_TITLE,
            panels,
            same_y=True,
        )

    return [plot(0, "training tasks", "shared"), plot(1, "held-out tasks", "shared-held-out")]


def _played_plot(suite: Mapping[str, Any], number: int) -> Plot:
    """Learning curves through an environment."""
    rows = suite["rows"]
    styles = styles_by_score(suite, list(rows), played_measure(rows))

    def points(name: str) -> tuple[list[float], Sequence[float]]:
        return list(map(float, range(len(rows[name]["curve"])))), rows[name]["curve"]

    panel = Panel(
        suite["name"],
        "policy update (equal KL divergence)",
        "success rate on the training tasks",
        _lines(styles, {name: points(name) for name in styles}),
        level=suite["expert"],
    )
    return Plot(
        suite["name"],
        f"learning-{number}",
        "Success rate while a tabular policy is trained through the environment, mean over tasks and seeds (dotted: the expert); the "
        "intervals of the areas under these curves are above." + left_out(suite, styles),
        AREA_TITLE,
        [panel],
    )
