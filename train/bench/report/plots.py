"""The plots of a document: bias against variance, exact learning curves, and learning through an environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from creditflow.train.bench.report.figures import COLOURS, new_figure, panels, require_plots, save_figure, tidy
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.report.summary import Summary, baseline, main_schemes
from creditflow.train.bench.report.sweep_plots import plot_sweeps
from creditflow.train.bench.report.tables.shared import SHARED_TITLE, standard_studies
from creditflow.train.bench.report.tables.table import AREA_TITLE, METRICS_TITLE
from creditflow.train.bench.studies import Study

__all__ = ["Plot", "plot_document"]

DASHES = ("-", "--", "-.", (0, (1, 1)))  # so that coinciding curves stay visible
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h")
CORRUPTED_COLOUR = "#999999"
CellRow = Mapping[str, Any]


class Plot(NamedTuple):
    """One plot.

    Attributes:
        suite: name of the suite.
        path: PNG file.
        caption: sentence that describes it.
        about: title of the table that it belongs to; "" for none.
    """

    suite: str
    path: Path
    caption: str
    about: str = ""


def plot_document(document: Mapping[str, Any], folder: Path) -> list[Plot]:
    """Plot every suite into ``folder``."""
    require_plots()
    folder.mkdir(parents=True, exist_ok=True)
    plots = []
    for number, suite in enumerate(document["suites"]):
        if "cells" in suite:
            plots.append(_bias_variance(suite, folder / f"bias-variance-{number}.png"))
            if any(cell["curves"] for cell in suite["cells"]):
                plots.append(_curves(suite, folder / f"curves-{number}.png"))
        elif "variations" in suite:
            plots.append(_shared_curves(suite, folder / f"shared-{number}.png"))
        elif "rows" in suite:
            plots.append(_learning(suite, folder / f"learning-{number}.png"))
        plots += [Plot(suite["name"], *found) for found in plot_sweeps(suite, folder, number)]
    return plots


def _look(suite: Mapping[str, Any], names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour, dash and marker of every plotted method: registered schemes, oracles, and one shuffled control."""
    schemes = main_schemes([n for n in suite["schemes"] if n in names])
    look: dict[str, dict[str, Any]] = {}
    for i, name in enumerate(schemes):
        shift = i + i // len(COLOURS)  # a colour that is used again gets another dash and marker
        look[name] = {"color": COLOURS[i % len(COLOURS)], "linestyle": DASHES[shift % 4], "marker": MARKERS[shift % 8]}
    reference = next((n[8:-1] for n in suite["controls"] if n.startswith("flipped(") and "oracle" not in n), "")
    for name, dash, mark in (
        ("oracle_adv", ":", "*"),
        ("oracle_progress", ":", "+"),
        (f"shuffled({reference})", "--", "x"),
    ):
        if name in names:
            look[name] = {"color": CORRUPTED_COLOUR if "(" in name else "#444444", "linestyle": dash, "marker": mark}
    return look


def _finish(figure: Any, path: Path) -> None:
    for axes in figure.axes:
        tidy(axes)
    save_figure(figure, path)


def _bias_variance(suite: Mapping[str, Any], path: Path) -> Plot:
    """One line per method, one point per group size: squared bias (mean) and variance (median), aliased cells apart."""
    cells: Sequence[CellRow] = [c for c in suite["cells"] if c["offline"]]
    parts = {
        "distinct text keys": [c for c in cells if c["kind"] != "alias"],
        "aliased text keys": [c for c in cells if c["kind"] == "alias"],
    }
    parts = {title: chosen for title, chosen in parts.items() if chosen}
    look = _look(suite, Summary(cells).methods)
    figure = new_figure(4.2 * len(parts) + 2.2, 4.2)
    for axes, (title, chosen) in panels(figure, parts.items()):
        for name, style in look.items():
            points = []
            for size in sorted({c["size"] for c in chosen}):
                rows = [c["offline"][name] for c in chosen if c["size"] == size]
                bias = [row["bias2"] for row in rows if row["bias2"] is not None]
                variance = [row["variance"] for row in rows if row["variance"] is not None]
                if bias and variance:
                    points.append((float(np.mean(bias)), float(np.median(variance))))
            if points:
                axes.plot(*zip(*points, strict=True), label=name, **style, markersize=5.5)
        axes.set(xlabel="squared bias of the gradient direction", ylabel="relative variance", yscale="log", title=title)
    _legend(figure)
    _finish(figure, path)
    sizes = ", ".join(str(g) for g in sorted({c["size"] for c in cells}))
    return Plot(
        suite["name"],
        path,
        f"Bias and variance of the sampled gradient (M3), one point per group size ({sizes}; larger groups have less variance). "
        "Lower left is better; more rollouts reduce the variance but not the bias. Means and medians over cells, without intervals.",
        METRICS_TITLE,
    )


def _curves(suite: Mapping[str, Any], path: Path) -> Plot:
    """Mean exact success over the turn budget, one panel for each kind of task."""
    cells: Sequence[CellRow] = [c for c in suite["cells"] if c["curves"]]
    kinds = list(dict.fromkeys(c["kind"] for c in cells))
    look = _look(suite, Summary(cells).learned)
    figure = new_figure(2.9 * len(kinds) + 2.2, 3.6)
    for axes, kind in panels(figure, kinds, sharey=True):
        for name, style in look.items():
            mean = np.mean([c["curves"][name]["points"] for c in cells if c["kind"] == kind], axis=0)
            axes.plot(np.linspace(0, 1, len(mean)), mean, label=name, linewidth=1.6, **(style | {"marker": ""}))
        axes.set(xlabel="fraction of the turn budget", title=kind)
    figure.axes[0].set_ylabel("exact success rate")
    _legend(figure)
    _finish(figure, path)
    return Plot(
        suite["name"],
        path,
        "Exact success rate while a tabular policy is trained, mean over the cells of each kind of task; the intervals of the areas under "
        "these curves are above.",
        AREA_TITLE,
    )


def _shared_curves(suite: Mapping[str, Any], path: Path) -> Plot:
    """Mean exact success over the updates, one column per kind of task; training tasks above, held-out tasks below."""
    studies = [Study.from_json(row) for row in suite["studies"]]
    shown = [(study, suite["curves"][studies.index(study)]) for study in standard_studies(studies)]
    names = [name for name in shown[0][1] if all(name in curves for _, curves in shown)]
    look, updates = _look(suite, names), suite["updates"]
    figure = new_figure(2.9 * len(shown) + 2.2, 6.0)
    grid = figure.subplots(2, len(shown), squeeze=False, sharey="row", sharex=True)
    for column, (study, curves) in zip(grid.T, shown, strict=True):
        for side, axes in enumerate(column):
            for name, style in look.items():
                points = curves[name][side]
                at = np.minimum(np.arange(len(points)) * updates["every"], updates["count"])
                axes.plot(at, points, label=name, linewidth=1.6, **(style | {"marker": ""}))
        column[0].set_title(study.kind if study.keys == "distinct" else f"{study.kind}, {study.keys} keys")
        column[1].set_xlabel("update (equal KL divergence)")
    for axes, tasks in zip(grid[:, 0], ("training tasks", "held-out tasks"), strict=True):
        axes.set_ylabel(f"exact success, {tasks}")
    _legend(figure)
    _finish(figure, path)
    return Plot(
        suite["name"],
        path,
        "Exact success rate while one policy is trained on many tasks, mean over layout seeds: on the training tasks (above) and "
        "on held-out tasks (below); the intervals of the areas under these curves are above.",
        SHARED_TITLE,
    )


def _learning(suite: Mapping[str, Any], path: Path) -> Plot:
    """Learning curves, and the difference of each area to the baseline's with its confidence interval."""
    rows = suite["rows"]
    look = _look(suite, list(rows))
    figure = new_figure(10.5, 4.2)
    left, right = figure.subplots(1, 2, width_ratios=[3, 2])
    for i, (name, style) in enumerate(look.items()):
        left.plot(rows[name]["curve"], label=name, linewidth=1.8, **(style | {"marker": ""}))
        gain = Estimate(*rows[name]["gain"])
        right.errorbar(
            gain.mean,
            i,
            xerr=[[gain.mean - gain.low], [gain.high - gain.mean]],
            fmt="o",
            color=style["color"],
            capsize=4,
        )
    right.axvline(0.0, color="#888888", linewidth=1.0)
    left.axhline(suite["expert"], color="#888888", linestyle=":", linewidth=1.2)
    left.set(xlabel="policy update (equal KL divergence)", ylabel="success rate on the training tasks", ylim=(0, 1.03))
    against = baseline([*suite["schemes"], *suite["controls"]])
    right.set(
        xlabel=f"area minus {against} [95 % CI]",
        yticks=range(len(look)),
        yticklabels=list(look),
    )
    right.invert_yaxis()
    left.legend(frameon=False, fontsize=8)
    _finish(figure, path)
    return Plot(
        suite["name"],
        path,
        "Success rate while a tabular policy is trained through the environment (dotted: the expert), and areas under the curves with 95 % intervals over tasks and seeds.",
        AREA_TITLE,
    )


def _legend(figure: Any) -> None:
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=9)
