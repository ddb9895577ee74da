"""The learning curves of language models, with intervals over seeds and tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.language_model.suite.report import learning_title
from creditflow.train.bench.language_model.suite.summary import PRIMARY, endpoint
from creditflow.train.bench.methods import is_control
from creditflow.train.bench.report.contrasts import Measure
from creditflow.train.bench.report.plots.plot import Line, Panel, Plot
from creditflow.train.bench.report.plots.suites import left_out, main_names, styles_by_score
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.statistics import ClusteredMean, crossed_mean

__all__ = ["SECTION", "language_model_plots"]

SECTION: Final = "language models"
SETS: Final = {"held_out": "held-out tasks", "train": "training tasks"}


def language_model_plots(part: Mapping[str, Any]) -> list[Plot]:
    """One plot per family of ``document["language_models"]``: success on held-out and on training tasks, and the lead over the baseline."""
    return [
        _plot(name, family, part["baseline"], number) for number, (name, family) in enumerate(part["families"].items())
    ]


def _plot(name: str, family: Mapping[str, Any], baseline: str, number: int) -> Plot:
    runs = family["runs"]
    suite = {
        "schemes": [method for method in runs if not is_control(method)],
        "controls": [method for method in runs if is_control(method)],
    }
    styles = styles_by_score(suite, list(runs), _area(runs))
    panels = [
        Panel(
            text,
            "update",
            "exact success rate, sampled",
            _lines(styles, {method: _success(runs[method], tasks) for method in styles}, runs[baseline]),
            level=float(np.mean([one["best"][tasks]["sampled"] for one in family["floors"]])),
        )
        for tasks, text in SETS.items()
    ]
    base = _success(runs[baseline], "held_out")
    panels.append(
        Panel(
            f"held-out tasks, minus {baseline}",
            "update",
            "difference of success rates",
            _lines(styles, {method: _success(runs[method], "held_out") - base for method in styles}, runs[baseline]),
        )
    )
    return Plot(
        SECTION,
        f"language-model-{number}",
        f"Exact success rate of language models while they learn {name}; bands: 95 % intervals over seeds and tasks, of the best "
        f"scheme, {baseline} and the exact advantage, and of the method whose name is pointed at. Tasks differ in difficulty, which widens the "
        "bands of the first two panels; the third compares methods paired by seed and task. Dotted level: the model before reinforcement "
        "learning, at its best temperature." + left_out(suite, styles),
        learning_title(name),
        panels,
    )


def _area(runs: Mapping[str, Any]) -> Measure:
    def mean(method: str, over: str) -> ClusteredMean:
        own = endpoint(runs[method], PRIMARY[0])
        return crossed_mean(own - endpoint(runs[over], PRIMARY[0]) if over else own)

    return mean


def _success(curves: Sequence[Sequence[Mapping[str, Any]]], tasks: str) -> NDArray[np.float64]:
    """float64 (S, points, T): sampled success by seed, point of the curve and task."""
    return np.array([[point[tasks]["sampled"] for point in curve] for curve in curves], np.float64)


def _lines(
    styles: Mapping[str, str], values: Mapping[str, NDArray[np.float64]], curves: Sequence[Sequence[Mapping[str, Any]]]
) -> list[Line]:
    """A line with its intervals for every method; the iterations are those of ``curves``."""
    main, at = main_names(styles), [float(point["iteration"]) for point in curves[0]]
    lines = []
    for method, style in styles.items():
        means = [Estimate.of(crossed_mean(values[method][:, i])) for i in range(len(at))]
        low, high = [one.low for one in means], [one.high for one in means]
        lines.append(Line(method, style, at, [one.mean for one in means], low, high, method in main))
    return lines
