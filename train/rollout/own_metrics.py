"""Metrics of one's own: a class with a name and a number for every episode, which ``creditflow eval`` averages.

>>> class Length:
...     name = "length"
...     def measure(self, trajectory):
...         return len(trajectory.turns)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, Protocol

from creditflow.envs.errors import ConfigError, CreditflowError, short_repr
from creditflow.envs.plugins.code import Code
from creditflow.envs.plugins.registry import Registry
from creditflow.envs.reading.failures import summary
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["METRICS", "Metric", "MetricError", "load_metric", "make_metric", "measured", "metric_names"]


class Metric(Protocol):
    """A number for every episode."""

    name: str

    def measure(self, trajectory: Trajectory) -> float:
        """The number of an episode; pure, and finite."""


def _name_of(code: Code) -> str:
    """Check that loaded code is a metric, and return its name."""
    kind = code.target
    name = getattr(kind, "name", None)
    if (
        not isinstance(kind, type)
        or not callable(getattr(kind, "measure", None))
        or not isinstance(name, str)
        or not name
    ):
        raise ConfigError(
            f"{code.spec} is not a metric: expected a class with a name and measure(trajectory), got {short_repr(kind)}"
        )
    return name


METRICS: Final[Registry[type[Any]]] = Registry("metric", name_of=_name_of)


class MetricError(CreditflowError, ValueError):
    """Raised for a metric that fails, or that returns no finite number."""


def metric_names() -> tuple[str, ...]:
    """Names of the metrics that were loaded or are installed."""
    return tuple(sorted({*METRICS.entries(), *METRICS.installed()}))


def load_metric(spec: str, *, digest: str = "") -> str:
    """Load a metric by where its code is, and return its name. This runs the code.

    Args:
        spec: ``path/to/file.py:NAME`` or ``package.module:NAME``.
        digest: the expected digest of the code; "" for any.

    Raises:
        ConfigError: it cannot be imported, is no metric, has a name that is taken, or another digest.
    """
    return METRICS.load(spec, digest=digest)


def make_metric(name: str) -> Metric:
    """The metric of a name.

    Raises:
        ConfigError: the name is unknown, or the metric cannot be made without arguments.
    """
    kind = METRICS.get(name)
    try:
        metric: Metric = kind()
    except TypeError as error:
        raise ConfigError(f"metric {name!r}: its class must take no arguments: {error}") from error
    return metric


def measured(metric: Metric, trajectories: Sequence[Trajectory]) -> list[float]:
    """The numbers of episodes.

    Raises:
        MetricError: the metric fails, or returns something else than a finite number; names the episode.
    """
    numbers = []
    for trajectory in trajectories:
        where = f"metric {metric.name!r}, trajectory {short_repr(trajectory.trajectory_id, 120)}"
        try:
            value = metric.measure(trajectory)
        except Exception as error:
            raise MetricError(f"{where}: {summary(error)}") from error
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            raise MetricError(f"{where}: measure must return a finite number, got {short_repr(value)}")
        numbers.append(number)
    return numbers
