"""Suites: which tasks of which environment are measured together, and the success rate of the initial policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium

from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError, DataError, unknown_name_error
from creditflow.envs.registration import ENVIRONMENTS, REGISTRY, bare_env, make
from creditflow.envs.tasks import Task, panel_names
from creditflow.train.bench.presets import Preset

__all__ = ["SUITES", "Suite", "SuiteEnv", "open_suite", "suite_name"]

SUITES = ("shared", *ENVIRONMENTS)
DEFAULT_PANEL = "standard-v1"
OPTIMAL_PROB = {"alfworld": 0.25, "webshop": 0.55}
LONG_TASK_OPTIMAL_PROB = 0.8  # of every other suite, ``ENV@PATH`` included


@dataclass(frozen=True, slots=True)
class SuiteEnv:
    """Tasks of one environment.

    Attributes:
        env: short name of the environment.
        settings: arguments of the environment.
        tasks: tasks at even intervals of the source's order; panels are sorted by difficulty within each stratum.
        optimal_prob: probability of an optimal action in the initial policy, chosen so that it sometimes succeeds: lower for
            short tasks.
        horizon: turn limit.
        expert: whether there is an expert, which any other Gymnasium environment lacks.
    """

    env: str
    settings: Mapping[str, Any]
    tasks: tuple[Task, ...]
    optimal_prob: float
    horizon: int
    expert: bool = True


@dataclass(frozen=True, slots=True)
class Suite:
    """Tasks that are measured together.

    Attributes:
        name: short name.
        spec: as given on the command line.
        env: the environment in which it is played; None for ``shared``, whose tasks are known as tables.
    """

    name: str
    spec: str
    env: SuiteEnv | None


def suite_name(spec: str) -> str:
    """The environment part of a suite's spec.

    Raises:
        ConfigError: the name is unknown; the message suggests the nearest one.
        DataError: the path does not exist.
    """
    name, path, _ = _parts(spec)
    if name not in SUITES and not REGISTRY.is_plugin(name) and name not in gymnasium.registry:
        raise unknown_name_error("suite", name, [*SUITES, *filter(REGISTRY.is_plugin, REGISTRY.entries())])
    if path is not None and not Path(path).exists():
        raise DataError(f"suite {spec!r}: {path} does not exist")
    return name


def _parts(spec: str) -> tuple[str, str | None, str]:
    """The environment, the path (None without one) and the panel ("" without one) of a spec."""
    name, at, rest = spec.partition("@")
    path, _, panel = (rest, "", "") if Path(rest).exists() else rest.partition("#")
    return name, path if at else None, panel


def open_suite(spec: str, preset: Preset) -> Suite:
    """Open a suite.

    Args:
        spec: ``shared``, ``ENV`` (its built-in panel), ``ENV@PATH`` (the environment's files at a path), or
            ``ENV@PATH#PANEL:SPLIT`` (those of its files that a panel of released data lists).
        preset: sizes of the benchmark.

    Raises:
        ConfigError: the suite is unknown, takes no files, or has an endless task source.
        DataError: the path does not exist or contains no tasks.
    """
    name, path, panel = _parts(spec)
    suite_name(spec)
    if path is not None and (name not in ENVIRONMENTS or not ENVIRONMENTS[name].files):
        raise ConfigError(f"suite {spec!r}: {name} does not accept files")
    if panel and name == "sokoban":
        raise ConfigError(f"suite {spec!r}: sokoban's panels need no files")
    if name == "shared":
        return Suite(name, spec, None)
    short = name if path is None else f"{name}@{Path(path).parent.name}/{Path(path).stem}{panel and f'#{panel}'}"
    settings: dict[str, Any] = {}
    if path is not None:
        settings |= {ENVIRONMENTS[name].files: path} | ({"panel": panel} if panel else {})
    elif DEFAULT_PANEL in panel_names(name):
        settings["panel"] = f"{DEFAULT_PANEL}:train"
    return Suite(short, spec, _suite_env(spec, name, settings, preset.played.tasks))


def _suite_env(spec: str, name: str, settings: Mapping[str, Any], limit: int) -> SuiteEnv:
    try:
        env = make(name, **settings).unwrapped
    except TypeError as error:
        raise ConfigError(f"suite {spec!r}: {name} does not accept files: {error}") from error
    if not isinstance(
        env, AgentEnv
    ):  # any other Gymnasium environment: its tasks are its first seeds, and it has no expert
        foreign = {**settings, "success": "positive_reward"}
        env = bare_env(name, foreign)
        seeds = tuple(env.tasks.from_content({"seed": number}) for number in range(limit))
        return SuiteEnv(name, foreign, seeds, 0.0, env.max_steps, expert=False)
    ids = env.tasks.task_ids()
    if not ids:
        raise ConfigError(f"suite {spec!r}: its task source is endless, so there is no list to choose tasks from")
    tasks = tuple(env.tasks.get(i) for i in _at_even_intervals(ids, limit))
    return SuiteEnv(name, settings, tasks, OPTIMAL_PROB.get(spec, LONG_TASK_OPTIMAL_PROB), env.max_steps)


def _at_even_intervals(ids: Sequence[str], limit: int) -> list[str]:
    """At most ``limit`` ids, at even intervals of the list."""
    if len(ids) <= limit:
        return list(ids)
    return [ids[i * len(ids) // limit] for i in range(limit)]
