"""Suites: which tasks of which environment a benchmark measures, and how strong its policy begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError, DataError, unknown_name_error
from creditflow.envs.registration import ENVIRONMENTS, make
from creditflow.envs.tasks import Task, panel_names
from creditflow.train.bench.exact.tasks import GRID_BLOCK, exact_kinds, grid_seed
from creditflow.train.bench.presets import Preset

__all__ = ["SUITES", "Play", "Suite", "open_suite", "suite_name"]

SUITES = ("grids", *ENVIRONMENTS)
DEFAULT_PANEL = "standard-v1"
OPTIMAL_PROB = {"sokoban": 0.45, "alfworld": 0.25, "webshop": 0.55, "grids": 0.45}
LONG_TASKS = 0.8


@dataclass(frozen=True, slots=True)
class Play:
    """Tasks of one environment.

    Attributes:
        env: short name of the environment.
        settings: its arguments.
        tasks: evenly spread over the source's order, which panels sort by difficulty within each stratum.
        optimal_prob: probability of an optimal action in the initial policy, so that success begins between never and
            always: lower for short tasks.
        horizon: the turn limit.
        oracle: whether distances are exact (True), or a proxy.
    """

    env: str
    settings: Mapping[str, Any]
    tasks: tuple[Task, ...]
    optimal_prob: float
    horizon: int
    oracle: bool


@dataclass(frozen=True, slots=True)
class Suite:
    """What is measured together.

    Attributes:
        name: short.
        spec: as the person wrote it.
        plays: what its log is recorded from; one, but for the grids.
        kinds: of its exact tasks; none where states cannot be listed.
        why: there are none.
    """

    name: str
    spec: str
    plays: tuple[Play, ...]
    kinds: tuple[str, ...]
    why: str


def suite_name(spec: str) -> str:
    """The environment part of a suite.

    Raises:
        ConfigError: unknown; suggests the near one.
        DataError: there is nothing at its path.
    """
    name, at, path = spec.partition("@")
    if name not in SUITES:
        raise unknown_name_error("suite", name, SUITES)
    if at and not Path(path).exists():
        raise DataError(f"suite {spec!r}: {path} does not exist")
    return name


def open_suite(spec: str, preset: Preset, seed: int = 0) -> Suite:
    """A suite: ``grids``, ``ENV`` (its embedded panel) or ``ENV@PATH`` (the environment's files at a path).

    Args:
        spec: which.
        preset: how many tasks.
        seed: of tasks that are drawn (grids).

    Raises:
        ConfigError: unknown suite.
        DataError: the path holds no tasks.
    """
    name, at, path = spec.partition("@")
    suite_name(spec)
    if at and (name == "grids" or not ENVIRONMENTS[name].files):
        raise ConfigError(f"suite {spec!r}: {name} takes no files")
    kinds, why = exact_kinds(spec)
    limit = preset.log if kinds else preset.played.tasks
    short = name if not at else f"{name}@{Path(path).parent.name}/{Path(path).stem}"
    if name == "grids":
        own = {"seed": grid_seed(seed), "count": GRID_BLOCK}
        each = max(limit // len(kinds), 1)
        plays = tuple(_play(spec, f"grid-{kind}", own, each, OPTIMAL_PROB[name]) for kind in kinds)
        return Suite(short, spec, plays, kinds, why)
    settings: dict[str, Any] = {}
    if at:
        settings[ENVIRONMENTS[name].files] = path
    elif DEFAULT_PANEL in panel_names(name):
        settings["panel"] = f"{DEFAULT_PANEL}:train"
    return Suite(short, spec, (_play(spec, name, settings, limit, OPTIMAL_PROB.get(spec, LONG_TASKS)),), kinds, why)


def _play(spec: str, name: str, settings: Mapping[str, Any], limit: int, optimal_prob: float) -> Play:
    try:
        env = make(name, **settings).unwrapped
    except TypeError as error:
        raise ConfigError(f"suite {spec!r}: {name} does not take files: {error}") from error
    if not isinstance(env, AgentEnv):
        raise ConfigError(f"suite {spec!r}: not a creditflow environment")
    ids = env.tasks.task_ids()
    if not ids:
        raise ConfigError(f"suite {spec!r}: its task source is endless and has no list to choose from")
    tasks = tuple(env.tasks.get(i) for i in _spread(ids, limit))
    return Play(name, settings, tasks, optimal_prob, env.max_steps, bool(env.oracle.exact))


def _spread(ids: Sequence[str], limit: int) -> list[str]:
    """``limit`` ids, evenly spread over the list."""
    if len(ids) <= limit:
        return list(ids)
    return [ids[i * len(ids) // limit] for i in range(limit)]
