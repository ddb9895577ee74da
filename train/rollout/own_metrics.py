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

from creditflow.envs.errors import ConfigError, CreditflowError, short_repr, unknown_name_error
from creditflow.envs.plugins.code import Code
from creditflow.envs.plugins.installed import installed_names, load_installed
from creditflow.envs.plugins.loaded import remember, require_no_code, same_code
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["Metric", "MetricError", "load_metric", "make_metric", "measured", "metric_names"]


class Metric(Protocol):
    """A number for every episode."""

    name: str

    def measure(self, trajectory: Trajectory) -> float:
        """The number of an episode; pure, and finite."""


class MetricError(CreditflowError, ValueError):
    """Raised for a metric that fails, or that returns no finite number."""


_METRICS: Final[dict[str, type[Any]]] = {}


def metric_names() -> tuple[str, ...]:
    """Names of the metrics that were loaded or are installed."""
    return tuple(sorted({*_METRICS, *installed_names("metric")}))


def load_metric(spec: str, *, digest: str = "") -> str:
    """Load a metric by where its code is, and return its name. This runs the code.

    Args:
        spec: ``path/to/file.py:NAME`` or ``package.module:NAME``.
        digest: the expected digest of the code; "" for any.

    Raises:
        ConfigError: it cannot be imported, is no metric, has a name that is taken, or another digest.
    """
    return _add(same_code(spec, digest))


def make_metric(name: str) -> Metric:
    """The metric of a name.

    Raises:
        ConfigError: the name is unknown, or the metric cannot be made without arguments.
    """
    require_no_code("metric", name)
    if name not in _METRICS and (code := load_installed("metric", name)) is not None:
        _add(code, name)
    if name not in _METRICS:
        raise unknown_name_error("metric", name, metric_names())
    try:
        made: Metric = _METRICS[name]()
    except TypeError as error:
        raise ConfigError(f"metric {name!r}: its class must take no arguments: {error}") from error
    return made


def measured(metric: Metric, trajectories: Sequence[Trajectory]) -> list[float]:
    """The numbers of episodes.

    Raises:
        MetricError: the metric fails, or returns something else than a finite number; names the episode.
    """
    numbers = []
    for trajectory in trajectories:
        place = f"metric {metric.name!r}, trajectory {short_repr(trajectory.trajectory_id, 120)}"
        try:
            value = metric.measure(trajectory)
        except Exception as error:
            raise MetricError(f"{place}: {type(error).__name__}: {str(error)[:500]}") from error
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            raise MetricError(f"{place}: measure must return a finite number, got {short_repr(value)}")
        numbers.append(number)
    return numbers


def _add(code: Code, name: str = "") -> str:
    kind = code.target
    own = getattr(kind, "name", None)
    if (
        not isinstance(kind, type)
        or not callable(getattr(kind, "measure", None))
        or not isinstance(own, str)
        or not own
    ):
        raise ConfigError(
            f"{code.spec} is no metric: expected a class with a name and measure(trajectory), got {short_repr(kind)}"
        )
    if not own.replace("_", "a").isalnum() or not own.isascii():
        raise ConfigError(
            f"{code.spec}: the name of a metric is one word of letters, digits and _, got {short_repr(own)}"
        )
    if name and own != name:
        raise ConfigError(f"{code.spec}: its entry point is called {name!r}, but the metric is called {own!r}")
    if _METRICS.setdefault(own, kind) is not kind:
        raise ConfigError(f"{code.spec}: a metric named {own!r} exists already: {_METRICS[own].__module__}")
    remember("metric", own, code)
    return own
