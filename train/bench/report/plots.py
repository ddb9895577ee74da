"""The plots of a document: panels of lines with their intervals as plain data, which the page draws, and pictures of them.

matplotlib is imported only when pictures are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from creditflow.train.bench.methods import base_method, is_control
from creditflow.train.bench.report.figures import COLOURS, new_figure, require_plots, save_figure, tidy
from creditflow.train.bench.report.figures import panels as row_of_axes
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.report.tables import (
    AREA_TITLE,
    METRICS_TITLE,
    SHARED_TITLE,
    SweptScheme,
    ordered,
    standard_settings,
    sweep_endpoints,
    sweep_title,
)
from creditflow.train.bench.report.tidy import EXACT, Measure, Results, Setting, baseline, main_schemes, results_of

__all__ = [
    "SCHEME_STYLES",
    "Line",
    "Panel",
    "Plot",
    "document_plots",
    "draw_plots",
    "drawn_schemes",
    "line_styles",
]

SCHEME_STYLES: Final = 8  # more lines are not told apart
BASELINE_STYLE: Final = "s6"  # in every plot
CONTROL_STYLES: Final = {EXACT: "c0", "oracle_progress": "c1", "stateless": "c2"}


class Line(NamedTuple):
    """One line.

    Attributes:
        name: of the method, or of a value.
        style: "s0" to "s7" for schemes, "c0" to "c3" for controls.
        x, y: its points, of one length.
        low, high: ends of the points' 95 % intervals; empty for none.
        main: whether the line is drawn in full strength; the others are faint until the reader points at
            their name.
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
        marked: whether points are marked, with their intervals as bars.
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


def document_plots(document: Mapping[str, Any]) -> list[Plot]:
    """The plots of all suites."""
    plots = []
    for number, suite in enumerate(document["suites"]):
        results = results_of(suite)
        if "cells" in suite:
            plots += _exact_plots(suite, results, number)
        elif "variations" in suite:
            plots += _shared_plots(suite, standard_settings(results), number)
        elif "rows" in suite:
            plots.append(_played_plot(suite, results, number))
        plots += _sweep_plots(suite, number)
    return plots


# -- which methods get a line, and how it looks -------------------------------------------------------------------------
def drawn_schemes(order: Sequence[str], base: str) -> list[str]:
    """The schemes that get a line: the best one, the baseline, and the best registered ones.

    Args:
        order: schemes, the best first.
        base: the baseline.
    """
    candidates = [name for name in order if name in {order[0], base, *main_schemes(order)}] if order else []
    rivals = [name for name in candidates if name != base][: SCHEME_STYLES - 1]
    return [name for name in candidates if name == base or name in rivals]


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


def _styles_by_score(suite: Mapping[str, Any], names: Sequence[str], measure: Measure) -> dict[str, str]:
    """Style by method of the drawn methods, the best scheme first."""
    schemes = ordered([name for name in suite["schemes"] if name in names], lambda name: measure(name, "").mean)
    base = baseline([*schemes, *suite["controls"]])
    return {name: style for name, style in line_styles(suite, schemes, base).items() if name in names}


def _main_names(styles: Mapping[str, str]) -> set[str]:
    """The best scheme, the baseline and the exact advantage, which are drawn in full strength."""
    return {*list(styles)[:1], baseline(list(styles)), EXACT} if styles else set()


def _left_out(suite: Mapping[str, Any], styles: Mapping[str, str]) -> str:
    """What the caption says of schemes without a line."""
    drawn = sum(name in styles for name in suite["schemes"])
    return "" if drawn == len(suite["schemes"]) else " Schemes without a line are in the table."


# -- learning curves ----------------------------------------------------------------------------------------------------
def _curve_panel(
    settings: Sequence[Setting], tasks: str, styles: Mapping[str, str], title: str, labels: tuple[str, str],
    x: Callable[[int], Sequence[float]], level: float | None = None,
) -> Panel:  # fmt: skip
    """The mean of the learning curves of some settings, a line without interval for every drawn method.

    Args:
        settings: the settings.
        tasks: "training" or "held-out".
        styles: style by drawn method.
        title: title of the panel.
        labels: labels of both axes.
        x: the horizontal positions of a number of points.
        level: height of a line for comparison.
    """
    lines, main = [], _main_names(styles)
    for name, style in styles.items():
        mean = np.mean([setting.curves[tasks][name] for setting in settings], axis=0).tolist()
        lines.append(Line(name, style, x(len(mean)), mean, main=name in main))
    return Panel(title, *labels, lines, level=level)


def _exact_plots(suite: Mapping[str, Any], results: Results, number: int) -> list[Plot]:
    """Bias against variance, and exact success over the turn budget, one panel for each kind of task."""
    learned = results.where(lambda setting: bool(setting.curves))
    primary = "area" if len(learned) else "gain"
    styles = _styles_by_score(suite, results.methods(primary), results.measure(primary))
    plots = [_bias_variance(suite, results, styles, number)]
    if not len(learned):
        return plots

    def percent(points: int) -> list[float]:
        return [float(x) for x in np.linspace(0.0, 100.0, points)]

    labels = ("environment turns, in per cent of the turn budget", "exact success rate")
    panels = [
        _curve_panel(of_kind.settings, "training", styles, kind, labels, percent)
        for kind, of_kind in learned.by("kind").items()
    ]
    caption = (
        "Exact success rate while a tabular policy is trained, mean over the cells of each kind of task. The intervals of mean success "
        f"during training are above.{_left_out(suite, styles)}"
    )
    return [*plots, Plot(suite["name"], f"curves-{number}", caption, AREA_TITLE, panels, same_y=True)]


def _bias_variance(suite: Mapping[str, Any], results: Results, styles: Mapping[str, str], number: int) -> Plot:
    """One line per method, one point per group size: squared bias (mean) and variance (median), aliased cells apart."""
    panels = []
    for keys, title in (("distinct", "distinct text keys"), ("aliased", "aliased text keys")):
        of_keys = results.where(lambda setting, keys=keys: setting.keys == keys)  # type: ignore[misc]  # a default binds the keys
        lines = [_bias_variance_line(of_keys, name, style) for name, style in styles.items()]
        if len(of_keys):
            panels.append(
                Panel(
                    title,
                    "squared bias of the gradient direction, relative to the exact gradient's squared length",
                    "variance (log scale, same unit as bias)",
                    [line for line in lines if line.x],
                )
            )
    sizes = ", ".join(str(size) for size in sorted(results.by("size")))
    return Plot(
        suite["name"],
        f"bias-variance-{number}",
        f"Bias and variance of the sampled gradient (M3), one point per group size ({sizes}; larger groups have less variance). "
        "Lower left is better; more rollouts reduce the variance but not the bias. Means and medians over cells, without intervals: "
        f"the cells differ on purpose.{_left_out(suite, styles)}",
        METRICS_TITLE,
        panels,
        log_y=True,
        marked=True,
    )


def _bias_variance_line(results: Results, name: str, style: str) -> Line:
    x, y = [], []
    for _, of_size in sorted(results.by("size").items()):
        bias = [mean for s in of_size.settings if np.isfinite(mean := s.mean("bias2", name))]
        variance = of_size.centre("variance", name)
        if bias and np.isfinite(variance):
            x.append(float(np.mean(bias)))
            y.append(variance)
    return Line(name, style, x, y)


def _shared_plots(suite: Mapping[str, Any], results: Results, number: int) -> list[Plot]:
    """Mean exact success over the updates, one panel per kind of task; training and held-out tasks apart."""
    curves = [setting.curves["training"] for setting in results.settings]
    names = [name for name in results.methods("area") if all(name in of_setting for of_setting in curves)]
    styles, updates = _styles_by_score(suite, names, results.measure("area")), suite["updates"]

    def update(points: int) -> list[float]:
        return [float(min(i * updates["every"], updates["count"])) for i in range(points)]

    plots = []
    for tasks, stem in (("training", "shared"), ("held-out", "shared-held-out")):
        labels = ("update (equal KL divergence)", f"exact success rate, {tasks} tasks")
        panels = []
        for setting in results.settings:
            title = setting.kind if setting.keys == "distinct" else f"{setting.kind}, {setting.keys} keys"
            panels.append(_curve_panel([setting], tasks, styles, title, labels, update))
        caption = (
            f"Exact success rate on {tasks} tasks while one policy is trained on many tasks, mean over layout seeds. The intervals of mean "
            f"success during training are above and in the table.{_left_out(suite, styles)}"
        )
        plots.append(Plot(suite["name"], f"{stem}-{number}", caption, SHARED_TITLE, panels, same_y=True))
    return plots


def _played_plot(suite: Mapping[str, Any], results: Results, number: int) -> Plot:
    """Learning curves through an environment."""
    styles = _styles_by_score(suite, results.methods("area"), results.measure("area"))
    labels = ("policy update (equal KL divergence)", "success rate on the training tasks")

    def update(points: int) -> list[float]:
        return list(map(float, range(points)))

    panel = _curve_panel(results.settings, "training", styles, suite["name"], labels, update, suite["expert"])
    return Plot(
        suite["name"],
        f"learning-{number}",
        "Success rate while a tabular policy is trained through the environment, mean over tasks and seeds (dotted: the expert). The "
        f"intervals of mean success during training are above.{_left_out(suite, styles)}",
        AREA_TITLE,
        [panel],
    )


# -- swept parameters ---------------------------------------------------------------------------------------------------
def _sweep_plots(suite: Mapping[str, Any], number: int) -> list[Plot]:
    """A plot of every swept scheme: an endpoint over the values of the first parameter, a line per value of the others."""
    schemes, measures = sweep_endpoints(suite)
    return [
        Plot(
            suite["name"],
            f"sweep-{number}-{at}",
            f"{swept.name} by {', '.join(swept.parameters)}; 95 % intervals of single variants.",
            sweep_title(swept),
            [_sweep_panel(swept, text, measure) for text, measure in measures.items()],
            marked=True,
        )
        for at, swept in enumerate(schemes)
    ]


def _sweep_panel(swept: SweptScheme, text: str, measure: Measure) -> Panel:
    ticks = list(dict.fromkeys(values[0] for values in swept.values.values()))
    combinations = list(dict.fromkeys(values[1:] for values in swept.values.values()))
    lines = []
    for i, combination in enumerate(combinations):
        names = [name for name, values in swept.values.items() if values[1:] == combination]
        means = [Estimate.of(measure(name, "")) for name in names]
        label = ", ".join(f"{p} {v}" for p, v in zip(swept.parameters[1:], combination, strict=True)) or swept.name
        aside = 0.06 * (i - (len(combinations) - 1) / 2)
        lines.append(
            Line(
                label,
                f"s{i % SCHEME_STYLES}",
                [ticks.index(swept.values[name][0]) + aside for name in names],
                [mean.mean for mean in means],
                [mean.low for mean in means],
                [mean.high for mean in means],
            )
        )
    unit = "fraction of the exact gradient's gain" if text.startswith("gain") else "mean success during training"
    return Panel(text, swept.parameters[0], unit, lines, ticks)


# -- pictures ------------------------------------------------------------------------------------------------------------
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
    for axes, panel in row_of_axes(figure, plot.panels, sharey=plot.same_y):
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
    shape = look if marked else look | {"marker": ""}
    axes.plot(line.x, line.y, label=line.name, linewidth=1.6, markersize=5.5, alpha=1.0 if line.main else 0.4, **shape)
    if marked and line.low:
        errors = np.subtract(line.y, line.low), np.subtract(line.high, line.y)
        axes.errorbar(line.x, line.y, yerr=errors, fmt="none", capsize=3, color=look["color"])


def _look(style: str) -> dict[str, Any]:
    if style in CONTROLS:
        return dict(CONTROLS[style])
    i = int(style[1:])
    return {"color": COLOURS[i], "linestyle": DASHES[i % len(DASHES)], "marker": MARKERS[i]}
