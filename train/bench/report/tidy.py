"""The results of a document as one tidy table, of which every table, check and verdict of the report is a query.

A suite stores what it measured in the shape in which it was run: studies of a shared policy, or rows of training through an
environment. ``results_of`` reads both into ``Results``: one value for every setting, method, seed, task and endpoint. What the
samples are (seeds, or tasks and seeds) is known to the table, so a query names an endpoint and a method and gets a mean with its
standard error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import DataError
from creditflow.train.statistics import ClusteredMean, crossed_mean, stratified_mean

__all__ = ["BASELINE", "EXACT", "Estimate", "Measure", "Results", "Setting", "baseline", "results_of"]

Floats = NDArray[np.float64]
Measure = Callable[[str, str], ClusteredMean]  # (method, rival) → its mean minus the rival's, paired; "" for no rival
Samples = Literal["seeds", "both"]

BASELINE: Final = "grpo"
EXACT: Final = "oracle_adv"


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """Methods compared on the same tasks and seeds.

    Attributes:
        regime: how the policy was trained, such as "shared policy" or "environment".
        kind: kind of task.
        keys: whether states have distinct, aliased or fresh keys.
        batch: tasks per update.
        size: G, rollouts per task and update.
        condition: what else was varied; "" for the standard setting.
        values: by endpoint and method float64 (S, T), rows are seeds and columns are tasks; NaN where a value is missing.
        curves: by method the learning curve on the training tasks.
    """

    regime: str
    kind: str
    keys: str
    batch: int
    size: int
    condition: str
    values: Mapping[str, Mapping[str, Floats]]
    curves: Mapping[str, Sequence[float]] = field(default_factory=dict)

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
        return f"{self.label}, {self.update}"

    def mean(self, endpoint: str, method: str) -> float:
        """Mean of an endpoint over seeds and tasks; NaN where it is unknown."""
        values = self.values[endpoint][method]
        finite = values[np.isfinite(values)]
        return float(finite.mean()) if len(finite) else math.nan


class Results:
    """The tidy table of a suite, or of some of its settings.

    Args:
        settings: the settings.
        samples: "seeds": all settings have the same seeds, which are the samples; "both": tasks and seeds are crossed, and settings
            are strata.
    """

    def __init__(self, settings: Sequence[Setting], samples: Samples) -> None:
        self.settings = tuple(settings)
        self.samples: Samples = samples
        self._computed: dict[tuple[str, str, str], ClusteredMean] = {}

    def __len__(self) -> int:
        return len(self.settings)

    def where(self, condition: Callable[[Setting], bool]) -> Results:
        """The settings that meet a condition."""
        return Results([setting for setting in self.settings if condition(setting)], self.samples)

    def by(self, name: str) -> dict[Any, Results]:
        """The settings by the value of one of their attributes, in the order in which the values first appear."""
        groups: dict[Any, list[Setting]] = {}
        for setting in self.settings:
            groups.setdefault(getattr(setting, name), []).append(setting)
        return {level: Results(settings, self.samples) for level, settings in groups.items()}

    def measured(self, endpoint: str) -> list[Setting]:
        """The settings in which an endpoint was measured."""
        return [setting for setting in self.settings if setting.values.get(endpoint)]

    def methods(self, endpoint: str) -> list[str]:
        """The methods that every setting with the endpoint has, in the order of the first."""
        by_setting = [setting.values[endpoint] for setting in self.measured(endpoint)]
        names = list(by_setting[0]) if by_setting else []
        return [name for name in names if all(name in methods for methods in by_setting)]

    def mean(self, endpoint: str, method: str, rival: str = "") -> ClusteredMean:
        """Mean of an endpoint over the settings with its standard error, or of its paired difference from a rival's."""
        key = endpoint, method, rival
        if key not in self._computed:
            self._computed[key] = self._mean(*key)
        return self._computed[key]

    def _mean(self, endpoint: str, method: str, rival: str) -> ClusteredMean:
        settings, values = self.measured(endpoint), list[Floats]()
        for setting in settings:
            by_method = setting.values[endpoint]
            values.append(by_method[method] - by_method[rival] if rival else by_method[method])
        if self.samples == "seeds":
            return crossed_mean(np.mean([of_setting.mean(axis=1) for of_setting in values], axis=0)[:, None])
        return stratified_mean([crossed_mean(of_setting) for of_setting in values])

    def estimate(self, endpoint: str, method: str, rival: str = "") -> Estimate:
        """The mean with its 95 % interval, NaN where nothing is known.

        Without a rival the "variance" is a median over the settings, without an interval, and a seed for which a value is
        unknown leaves the mean of the others, without an interval.
        """
        settings = self.measured(endpoint)
        complete = all(np.isfinite(setting.values[endpoint][method]).all() for setting in settings)
        if rival or (endpoint != "variance" and settings and complete):
            return Estimate.of(self.mean(endpoint, method, rival))
        known = np.concatenate([np.zeros(0), *(setting.values[endpoint][method].ravel() for setting in settings)])
        known = known[np.isfinite(known)]
        centre = np.median if endpoint == "variance" else np.mean
        return Estimate(float(centre(known)) if len(known) else math.nan, math.nan, math.nan)

    def measure(self, endpoint: str) -> Measure:
        """The query as a function of a method and its rival."""
        return lambda method, rival: self.mean(endpoint, method, rival)


# -- reading the stored shapes ------------------------------------------------------------------------------------------
def results_of(suite: Mapping[str, Any]) -> Results:
    """The results of a suite of a document."""
    if "studies" in suite:
        settings = [_study(row, of_row) for row, of_row in zip(suite["studies"], suite["curves"], strict=True)]
        return Results(settings, "seeds")
    area = {name: np.asarray(row["area_by_seed"], np.float64) for name, row in suite["rows"].items()}
    curves = {name: row["curve"] for name, row in suite["rows"].items()}
    return Results([Setting("environment", suite["name"], "distinct", 1, 1, "", {"area": area}, curves=curves)], "both")


def _study(row: Mapping[str, Any], curves: Mapping[str, Any]) -> Setting:
    """A stored setting of a shared policy; rows of its values are seeds, whose tasks are averaged into one column.

    Raises:
        DataError: the results of an endpoint differ in shape.
    """
    values = {}
    for endpoint, by_method in row["endpoints"].items():
        values[endpoint] = {name: np.asarray(of_method, np.float64) for name, of_method in by_method.items()}
        shapes = {of_method.shape for of_method in values[endpoint].values()}
        if len(shapes) != 1 or any(len(shape) != 2 for shape in shapes):
            raise DataError(
                f"{endpoint} of {row['kind']}: expected one shape (seeds, tasks) of all methods, got {sorted(shapes)}"
            )
    described = {name: row[name] for name in ("regime", "kind", "keys", "batch", "size", "condition")}
    return Setting(**described, values=values, curves={method: training for method, (training, _) in curves.items()})


# -- names of methods ---------------------------------------------------------------------------------------------------
def baseline(methods: Sequence[str]) -> str:
    """The method with which others are compared: grpo, or the first method if it is missing."""
    return BASELINE if BASELINE in methods else methods[0]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % confidence interval, which is nan where there are too few tasks."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return self.text()

    @classmethod
    def of(cls, found: ClusteredMean) -> Estimate:
        """A mean over tasks and seeds with its t interval."""
        return cls(found.mean, *found.interval)

    def times(self, factor: float) -> Estimate:
        """The estimate in another unit, such as percentage points; ``factor`` is positive."""
        return Estimate(factor * self.mean, factor * self.low, factor * self.high)

    def text(self, digits: int = 3, sign: Literal["", "+"] = "") -> str:
        """Mean and interval with ``digits`` decimal places; "+" shows the sign of positive numbers too."""
        mean, low, high = (f"{round(x, digits) + 0.0:{sign}.{digits}f}" for x in (self.mean, self.low, self.high))
        return f"{mean} [{low}, {high}]" if math.isfinite(self.low) else mean

    def short(self, digits: int = 2, sign: Literal["", "+"] = "") -> str:
        """Mean and half the width of the interval, which is symmetric, where there is little room.

        >>> Estimate(0.5, 0.4, 0.6).short()
        '0.50 ± 0.10'
        """
        mean = f"{round(self.mean, digits) + 0.0:{sign}.{digits}f}"
        return f"{mean} ± {(self.high - self.low) / 2:.{digits}f}" if math.isfinite(self.low) else mean
