"""The results of a document as one tidy table, of which every table, plot, check and verdict of the report is a query.

A suite stores what it measured in the shape in which it was run: cells of tasks with exact values, studies of a shared
policy, rows of training through an environment, families of language models. ``results_of`` reads all of them into
``Results``: one value for every setting, method, seed, task and endpoint. What the samples are (tasks, seeds, or both) is
known to the table, so a query names an endpoint and a method and gets a mean with its standard error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from creditflow.train.bench.report.statistics import CellMeans, Estimate
from creditflow.train.bench.studies import Study
from creditflow.train.bench.variants.names import MethodName
from creditflow.train.statistics import ClusteredMean, crossed_mean, spearman, stratified_mean
from creditflow.wrappers import credit

__all__ = [
    "BASELINE",
    "EXACT",
    "FIDELITY",
    "Measure",
    "Results",
    "Setting",
    "TidyRow",
    "baseline",
    "correlation_estimate",
    "correlations",
    "main_schemes",
    "mean_correlation",
    "results_of",
    "study_results",
]

Floats = NDArray[np.float64]
Measure = Callable[[str, str], ClusteredMean]  # (method, rival) → its mean minus the rival's, paired; "" for no rival
Samples = Literal["tasks", "seeds", "both"]

BASELINE: Final = "grpo"
EXACT: Final = "oracle_adv"
FIDELITY: Final = (
    "gain_small", "gain", "cos_batch", "cos_mean", "concordance", "concordance_optimal", "auroc_failed", "auroc_succeeded"
)  # fmt: skip
BY_TASK: Final = "_by_task"  # the ending of a stored list with one value per task


class TidyRow(NamedTuple):
    """One row of the tidy table."""

    setting: str
    method: str
    seed: int
    task: str
    endpoint: str
    value: float


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """Methods compared on the same tasks and seeds.

    Attributes:
        regime: what the tasks share: "table per task", "shared policy", "language model" or "environment".
        kind: kind of task.
        keys: whether states have distinct, aliased or fresh keys.
        batch: tasks per update.
        size: G, rollouts per task and update.
        condition: what else was varied; "" for the standard setting.
        success: success rate of the initial policy; NaN where it was not set.
        tasks: names of the tasks; () where every seed has its own tasks.
        values: by endpoint and method float64 (S, T), rows are seeds and columns are tasks; NaN where a value is missing.
        means: by endpoint and method the mean that was stored with the values, or instead of them.
        curves: by set of tasks ("training", "held-out") and method the learning curve.
        facts: numbers that describe the tasks and not a method.
    """

    regime: str
    kind: str
    keys: str
    batch: int
    size: int
    condition: str
    values: Mapping[str, Mapping[str, Floats]]
    success: float = math.nan
    tasks: tuple[str, ...] = ()
    means: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    curves: Mapping[str, Mapping[str, Sequence[float]]] = field(default_factory=dict)
    facts: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The kind of task, with its keys where each visit of a state has a new one."""
        return f"{self.kind}, fresh keys" if self.keys == "fresh" else self.kind

    @property
    def update(self) -> str:
        """What an update consists of, and what else was varied."""
        return f"{self.batch} × {self.size}" + (f", {self.condition}" if self.condition else "")

    @property
    def title(self) -> str:
        """Kind of task and setting in a few words, distinct within a suite."""
        if self.regime == "table per task":
            return f"{self.kind} J0 {self.success} G {self.size}"
        return f"{self.label}, {self.update}"

    @property
    def long_title(self) -> str:
        """What was compared, with the regime."""
        keys = "" if self.keys == "distinct" else f", {self.keys} keys"
        batch = f", {self.batch} tasks × {self.size} rollouts" if self.batch > 1 else f", groups of {self.size}"
        return f"{self.regime}, {self.kind}{keys}{batch}" + (f", {self.condition}" if self.condition else "")

    def has(self, endpoint_name: str, method: str) -> bool:
        """Whether an endpoint of a method was measured, be it as a mean only."""
        return method in self.means.get(endpoint_name, ()) or method in self.values.get(endpoint_name, ())

    def mean(self, endpoint_name: str, method: str) -> float:
        """Mean of an endpoint over seeds and tasks; NaN where it is unknown."""
        if endpoint_name in self.means:
            stored = self.means[endpoint_name].get(method)
            return math.nan if stored is None else stored
        values = self.values[endpoint_name][method]
        finite = values[np.isfinite(values)]
        return float(finite.mean()) if len(finite) else math.nan


class Results:
    """The tidy table of a suite, or of some of its settings.

    Args:
        settings: the settings; the tasks or seeds of one kind are shared by the settings of this kind.
        samples: "tasks": each kind has its own tasks, which are the samples, and kinds are strata; "seeds": all settings have
            the same seeds, which are the samples; "both": tasks and seeds are crossed, and settings are strata.
    """

    def __init__(self, settings: Sequence[Setting], samples: Samples) -> None:
        self.settings = tuple(settings)
        self.samples: Samples = samples
        self._computed: dict[tuple[str, str, str], ClusteredMean] = {}

    def __len__(self) -> int:
        return len(self.settings)

    def rows(self) -> Iterator[TidyRow]:
        """Yield the table row by row."""
        for setting in self.settings:
            for name, by_method in setting.values.items():
                for method, values in by_method.items():
                    for (seed, task), value in np.ndenumerate(values):
                        label = setting.tasks[task] if setting.tasks else str(task)
                        yield TidyRow(setting.title, method, seed, label, name, float(value))

    def where(self, condition: Callable[[Setting], bool], samples: Samples | None = None) -> Results:
        """The settings that meet a condition."""
        return Results([setting for setting in self.settings if condition(setting)], samples or self.samples)

    def by(self, name: str) -> dict[Any, Results]:
        """The settings by the value of one of their attributes, in the order in which the values first appear."""
        levels = dict.fromkeys(getattr(setting, name) for setting in self.settings)
        return {level: self.where(lambda setting, level=level: getattr(setting, name) == level) for level in levels}  # type: ignore[misc]  # a default binds the level

    @cached_property
    def endpoints(self) -> tuple[str, ...]:
        """Names of the endpoints of any setting, the primary one first."""
        return tuple(dict.fromkeys(name for setting in self.settings for name in setting.values))

    def measured(self, endpoint_name: str) -> list[Setting]:
        """The settings in which an endpoint was measured."""
        return [setting for setting in self.settings if setting.values.get(endpoint_name)]

    def methods(self, endpoint_name: str) -> list[str]:
        """The methods that every setting with the endpoint has, in the order of the first."""
        by_setting = [setting.values[endpoint_name] for setting in self.measured(endpoint_name)]
        names = list(by_setting[0]) if by_setting else []
        for methods in by_setting:
            names = [name for name in names if name in methods]
        return names

    def mean(self, endpoint_name: str, method: str, rival: str = "") -> ClusteredMean:
        """Mean of an endpoint over the settings with its standard error, or of its paired difference from a rival's."""
        key = endpoint_name, method, rival
        if key not in self._computed:
            self._computed[key] = self._mean(*key)
        return self._computed[key]

    def _mean(self, endpoint_name: str, method: str, rival: str) -> ClusteredMean:
        settings, values = self.measured(endpoint_name), list[Floats]()
        for setting in settings:
            by_method = setting.values[endpoint_name]
            values.append(by_method[method] - by_method[rival] if rival else by_method[method])
        if self.samples == "tasks":
            return _over_tasks(settings, values)
        if self.samples == "seeds":
            return crossed_mean(np.mean([of_setting.mean(axis=1) for of_setting in values], axis=0)[:, None])
        return stratified_mean([crossed_mean(of_setting) for of_setting in values])

    def estimate(self, endpoint_name: str, method: str, rival: str = "") -> Estimate:
        """The mean with its 95 % interval; without an interval where only means were stored, and NaN where nothing is known.

        The "variance" is a median over the settings, without an interval.
        """
        if rival or self._has_interval(endpoint_name, method):
            return Estimate.of(self.mean(endpoint_name, method, rival))
        return Estimate(self.centre(endpoint_name, method), math.nan, math.nan)

    def _has_interval(self, endpoint_name: str, method: str) -> bool:
        measured = self.measured(endpoint_name)
        if endpoint_name == "variance" or not measured:
            return False
        if self.samples == "tasks":  # tasks without a value are left out
            stored = sum(method in setting.means.get(endpoint_name, ()) for setting in self.settings)
            return len(measured) >= stored and any(np.isfinite(s.values[endpoint_name][method]).any() for s in measured)
        return all(np.isfinite(setting.values[endpoint_name][method]).all() for setting in measured)

    def has(self, endpoint_name: str) -> bool:
        """Whether every setting has the endpoint, be it as a mean only."""
        return all(endpoint_name in {*setting.values, *setting.means} for setting in self.settings)

    def centre(self, endpoint_name: str, method: str) -> float:
        """Mean over the settings of the known values (the median of the variance); NaN if there are none."""
        if self.samples == "tasks":
            means = [
                setting.mean(endpoint_name, method) for setting in self.settings if setting.has(endpoint_name, method)
            ]
            finite = [mean for mean in means if math.isfinite(mean)]
        else:
            stacked = np.concatenate([setting.values[endpoint_name][method].ravel() for setting in self.settings])
            finite = stacked[np.isfinite(stacked)].tolist()
        if not finite:
            return math.nan
        return float(np.median(finite) if endpoint_name == "variance" else np.mean(finite))

    def measure(self, endpoint_name: str) -> Measure:
        """The query as a function of a method and its rival."""
        return lambda method, rival: self.mean(endpoint_name, method, rival)

    def fact(self, name: str) -> float:
        """Mean over settings of a number that describes their tasks; NaN where it is unknown."""
        finite = [value for setting in self.settings if (value := setting.facts.get(name)) is not None]
        return float(np.mean(finite)) if finite else math.nan


def _over_tasks(settings: Sequence[Setting], values: Sequence[Floats]) -> ClusteredMean:
    """Mean over settings of means over the tasks that have a value."""
    cells, of_tasks = [], []
    for setting, of_setting in zip(settings, values, strict=True):
        finite = np.isfinite(of_setting[0])
        if finite.any():
            names = [name for name, has_value in zip(setting.tasks, finite.tolist(), strict=False) if has_value]
            cells.append({"kind": setting.kind, "task_names": names})
            of_tasks.append(of_setting[0][finite].tolist())
    return CellMeans(cells)(of_tasks) if cells else ClusteredMean(math.nan, math.nan, math.nan)


# -- reading the stored shapes ------------------------------------------------------------------------------------------
def results_of(suite: Mapping[str, Any], *, single_steps: bool = False) -> Results:
    """The results of a suite of a document.

    Args:
        suite: the suite.
        single_steps: also the settings of a shared policy in which only single steps were measured.
    """
    if "cells" in suite:
        return Results([_cell(cell) for cell in suite["cells"] if cell["offline"]], "tasks")
    if "studies" in suite:
        curves = suite.get("curves", [{}] * len(suite["studies"]))
        settings = [_study(Study.from_json(row), of_row) for row, of_row in zip(suite["studies"], curves, strict=True)]
        if single_steps:
            settings += [_study(Study.from_json(row)) for row in suite.get("variations", ())]
        return Results(settings, "seeds" if "variations" in suite else "both")
    return Results([_played(suite)], "both")


def study_results(studies: Sequence[Study], samples: Samples = "seeds") -> Results:
    """The results of some studies."""
    return Results([_study(study) for study in studies], samples)


def _cell(cell: Mapping[str, Any]) -> Setting:
    values: dict[str, dict[str, Floats]] = {}
    means: dict[str, dict[str, float | None]] = {}
    for method, row in cell["offline"].items():
        for name, value in row.items():
            if name.endswith(BY_TASK):
                values.setdefault(name.removesuffix(BY_TASK), {})[method] = _row(value)
            else:
                means.setdefault(name, {})[method] = value
    for method, curve in cell["curves"].items():
        values.setdefault("area", {})[method] = _row(curve["area_by_task"])
        means.setdefault("final", {})[method] = curve["final"]
        if "final_by_task" in curve:
            values.setdefault("final", {})[method] = _row(curve["final_by_task"])
    names = (
        "states",
        "dead_state_fraction",
        "natural_gain_small",
        "natural_gain",
        "base_rate_failed",
        "base_rate_succeeded",
    )
    return Setting(
        "table per task", cell["kind"], "aliased" if cell["kind"] == "alias" else "distinct", 1, cell["size"], "", values,
        success=cell["success"], tasks=tuple(cell["task_names"]), means=means,
        curves={"training": {method: curve["points"] for method, curve in cell["curves"].items()}} if cell["curves"] else {},
        facts={name: cell.get(name) for name in names},
    )  # fmt: skip


def _row(values: Sequence[float | None]) -> Floats:
    """float64 (1, T): the values of the tasks under one seed."""
    return np.array([values], np.float64)


def _study(study: Study, curves: Mapping[str, Any] | None = None) -> Setting:
    by_set: dict[str, dict[str, Sequence[float]]] = {}
    for method, (training, held_out) in (curves or {}).items():
        by_set.setdefault("training", {})[method] = training
        by_set.setdefault("held-out", {})[method] = held_out
    values = {name: study.results(name) for name in study.endpoints}
    return Setting(
        study.regime, study.kind, study.keys, study.batch, study.size, study.condition, values, curves=by_set
    )


def _played(suite: Mapping[str, Any]) -> Setting:
    rows = suite["rows"]
    area = {name: np.asarray(row["area_by_seed"], np.float64) for name, row in rows.items()}
    curves = {name: row["curve"] for name, row in rows.items()}
    return Setting("environment", suite["name"], "distinct", 1, 1, "", {"area": area}, curves={"training": curves})


# -- names of methods ---------------------------------------------------------------------------------------------------
def main_schemes(schemes: Sequence[str]) -> list[str]:
    """The registered schemes, with annotation source and values of parameters or without, but not named variants; all if there are none."""
    return [name for name in schemes if MethodName.parse(name).scheme in credit.names()] or list(schemes)


def baseline(methods: Sequence[str]) -> str:
    """The method with which others are compared: grpo, or the first method if it is missing."""
    return BASELINE if BASELINE in methods else methods[0]


# -- which metric predicts learning -------------------------------------------------------------------------------------
def correlations(cells: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float | None]]:
    """Rank correlation over methods of each offline metric with the area under the curve, averaged over cells.

    Returns:
        By metric: "plain" for cells without and "alias" for cells with aliased text keys, over all methods; with the suffix
        "_schemes" over the schemes alone, without controls.
    """
    settings = [_cell(cell) for cell in cells if cell["curves"] and cell["offline"]]
    by_metric: dict[str, dict[str, float | None]] = {}
    for metric in FIDELITY:
        values: dict[str, list[float]] = {"plain": [], "alias": [], "plain_schemes": [], "alias_schemes": []}
        for setting in settings:
            side = "alias" if setting.keys == "aliased" else "plain"
            methods = [name for name in setting.values["area"] if name in setting.means[metric]]
            schemes = [n for n in methods if "oracle" not in n and "(" not in n and "[exact]" not in n]
            for suffix, names in (("", methods), ("_schemes", schemes)):
                value = _correlation(setting, metric, [n for n in names if setting.means[metric][n] is not None])
                if math.isfinite(value):
                    values[side + suffix].append(value)
        by_metric[metric] = {name: float(f"{np.mean(v):.4g}") if v else None for name, v in values.items()}
    return by_metric


def mean_correlation(results: Results, metric: str) -> float:
    """Rank correlation over methods of a metric with the area, averaged over the settings where it is defined; NaN if there is none."""
    values = []
    for setting in results.settings:
        names = [name for name in setting.values["area"] if name in setting.values.get(metric, ())]
        values.append(_correlation(setting, metric, names))
    finite = [value for value in values if math.isfinite(value)]
    return float(np.mean(finite)) if finite else math.nan


def _correlation(setting: Setting, metric: str, names: Sequence[str]) -> float:
    x = np.array([_strict_mean(setting, metric, name) for name in names])
    y = np.array([_strict_mean(setting, "area", name) for name in names])
    return spearman(x, y) if np.isfinite(x).all() else math.nan


def _strict_mean(setting: Setting, metric: str, name: str) -> float:
    """The mean as it was stored, or over all values; NaN if one of them is unknown."""
    if metric in setting.means:
        return setting.mean(metric, name)
    values = setting.values[metric][name]
    return float(np.mean(values)) if values.size else math.nan


def correlation_estimate(results: Results, metric: str, value: float | None) -> Estimate | None:
    """A rank correlation with the area, mean over settings, with its jackknife interval over seeds; None if it is undefined.

    The standard error is that of the pseudo-values (Tukey, 1958; Efron and Stein, 1981). Without two seeds, or where a
    correlation is undefined without one of them, there is no interval.

    Args:
        results: settings with the same seeds.
        metric: name of an endpoint.
        value: the stored correlation over all seeds.
    """
    if value is None:
        return None
    seeds = min(len(next(iter(setting.values["area"].values()))) for setting in results.settings)
    without = np.array([mean_correlation(_without(results, seed), metric) for seed in range(seeds)])
    if seeds < 2 or not np.isfinite(without).all():
        return Estimate(value, math.nan, math.nan)
    error = math.sqrt((seeds - 1) / seeds * float(((without - without.mean()) ** 2).sum()))
    interval = ClusteredMean(value, error, seeds - 1.0).interval
    return Estimate(value, max(interval.low, -1.0), min(interval.high, 1.0))


def _without(results: Results, seed: int) -> Results:
    """The results without one seed."""
    settings = []
    for setting in results.settings:
        values = {name: _drop(by_method, seed) for name, by_method in setting.values.items()}
        settings.append(replace(setting, values=values))
    return Results(settings, results.samples)


def _drop(by_method: Mapping[str, ArrayLike], seed: int) -> dict[str, Floats]:
    return {method: np.delete(values, seed, axis=0) for method, values in by_method.items()}
