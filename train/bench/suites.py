"""Suites: which tasks of which environment a benchmark plays, and how strong its policy begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError, DataError, unknown_name
from creditflow.envs.registration import ENVIRONMENTS, make
from creditflow.envs.tasks import Task, panel_names

__all__ = ["PRESETS", "Preset", "Suite", "open_suite"]


DEFAULT_PANEL = "standard-v1"
GUIDANCE = {"sokoban": 0.45, "alfworld": 0.25, "webshop": 0.55}
LONG_TASKS = 0.8


@dataclass(frozen=True, slots=True)
class Preset:
    """How much work a benchmark does.

    Attributes:
        tasks: per suite.
        group_size: G, rollouts per task and iteration.
        iterations: policy updates.
        seeds: repetitions of learning.
    """

    tasks: int
    group_size: int
    iterations: int
    seeds: int


PRESETS: Mapping[str, Preset] = {
    "smoke": Preset(tasks=3, group_size=4, iterations=4, seeds=2),
    "quick": Preset(tasks=16, group_size=8, iterations=24, seeds=3),
    "full": Preset(tasks=60, group_size=8, iterations=60, seeds=10),
}


@dataclass(frozen=True, slots=True)
class Suite:
    """Tasks of one environment.

    Attributes:
        name: as the person wrote it.
        env: short name of the environment.
        settings: its arguments.
        tasks: evenly spread over the source's order, which panels sort by difficulty within each stratum.
        guidance: probability of an optimal action in the initial policy, so that success begins between never and
            always: lower for short tasks.
    """

    name: str
    env: str
    settings: Mapping[str, Any]
    tasks: tuple[Task, ...]
    guidance: float
    notes: Mapping[str, Any] = field(default_factory=dict)


def open_suite(spec: str, limit: int) -> Suite:
    """A suite from ``ENV`` (embedded panel) or ``ENV@PATH`` (the environment's files at a path).

    Raises:
        ConfigError: unknown environment.
        DataError: the path holds no tasks.
    """
    name, at, path = spec.partition("@")
    settings: dict[str, Any] = {}
    if at:
        if not Path(path).exists():
            raise DataError(f"suite {spec!r}: {path} does not exist")
        if name not in ENVIRONMENTS:
            raise unknown_name("environment", name, ENVIRONMENTS)
        if not ENVIRONMENTS[name].files:
            raise ConfigError(f"suite {spec!r}: {name} takes no files")
        settings[ENVIRONMENTS[name].files] = path
    elif DEFAULT_PANEL in panel_names(name):
        settings["panel"] = f"{DEFAULT_PANEL}:train"
    try:
        env = make(name, **settings).unwrapped
    except TypeError as error:
        raise ConfigError(f"suite {spec!r}: {name} does not take files: {error}") from error
    if not isinstance(env, AgentEnv):
        raise ConfigError(f"suite {spec!r}: not a creditflow environment")
    ids = env.tasks.task_ids()
    if not ids:
        raise ConfigError(f"suite {spec!r}: its task source is endless and has no list to choose from")
    chosen = _spread(ids, limit)
    short = name if not at else f"{name}@{Path(path).parent.name}/{Path(path).stem}"
    return Suite(short, name, settings, tuple(env.tasks.get(i) for i in chosen), GUIDANCE.get(spec, LONG_TASKS))


def _spread(ids: Sequence[str], limit: int) -> list[str]:
    """``limit`` ids, evenly spread over the list."""
    if len(ids) <= limit:
        return list(ids)
    return [ids[i * len(ids) // limit] for i in range(limit)]
