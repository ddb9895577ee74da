"""The tasks and the environments of a run, from its settings. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, cast

import numpy as np

import creditflow
from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError
from creditflow.envs.registration import maker
from creditflow.envs.tasks import Task
from creditflow.train.settings.schema import EnvConfig, TaskConfig, TrainConfig
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.group_env import GroupEnv

__all__ = ["group_env_factory", "listed_tasks", "needs_texts", "on_panel", "panel_tasks", "training_tasks"]

MAX_REDRAWS: Final = 50  # samples per requested task before a source counts as too small for the exclusions


def group_env_factory(env: EnvConfig, size: int, *, texts: bool = False) -> Callable[[], GroupEnv]:
    """A factory of the environments of one group."""

    def make() -> GroupEnv:
        return GroupEnv(
            maker(env.name, env.options), size=size, invalid_actions=env.invalid_actions, texts=texts, policy="lm"
        )

    return make


def needs_texts(settings: TrainConfig, scheme: Scheme) -> bool:
    """Whether rollouts must record observations and completions: for windowed prompts, the scheme, or annotators."""
    return settings.prompting.history == "window" or bool(scheme.texts) or bool(settings.credit.annotators)


def panel_tasks(env: EnvConfig, spec: str, limit: int = 0) -> list[Task]:
    """The tasks of an embedded panel "NAME:SPLIT"; with ``limit``, only those of its first rows."""
    return listed_tasks(on_panel(env, spec), limit)


def listed_tasks(env: EnvConfig, limit: int = 0) -> list[Task]:
    """The tasks of the environment's own source; with ``limit``, only the first.

    Raises:
        ConfigError: the source is endless.
    """
    source = _base(env).tasks
    ids = source.task_ids()
    if not ids:
        raise ConfigError(f"{env.name} has an endless task source: name the tasks with a panel, NAME:SPLIT")
    return [source.get(task_id) for task_id in (ids[:limit] if limit else ids)]


def training_tasks(env: EnvConfig, tasks: TaskConfig, seed: int) -> list[Task]:
    """The training tasks, without any task equal to an excluded one up to symmetry.

    Raises:
        ConfigError: an endless source without ``tasks.count``, or no task left after exclusion.
    """
    source = _base(on_panel(env, tasks.panel) if tasks.panel else env).tasks
    excluded = {task.canonical_id for spec in tasks.exclude for task in panel_tasks(env, spec)}
    ids = source.task_ids()
    if ids:
        pool = [task for task in map(source.get, ids) if task.canonical_id not in excluded]
        if tasks.count:
            order = np.random.default_rng([seed, 1]).permutation(len(pool))[: tasks.count]
            pool = [pool[i] for i in order]
    elif not tasks.count:
        raise ConfigError("this task source is endless: set tasks.count to the number of tasks to train on")
    else:
        rng, pool, tried, seen = np.random.default_rng([seed, 1]), [], 0, set()
        while len(pool) < tasks.count and tried < MAX_REDRAWS * tasks.count:
            task = source.sample(rng)
            tried += 1
            if task.canonical_id not in excluded and task.task_id not in seen:
                seen.add(task.task_id)
                pool.append(task)
        if len(pool) < tasks.count:
            raise ConfigError(f"the source gave only {len(pool)} different allowed tasks, tasks.count is {tasks.count}")
    if not pool:
        raise ConfigError("no task is left to train on after tasks.exclude")
    return pool


def _base(env: EnvConfig) -> AgentEnv[Any, Any, Any]:
    """A bare environment."""
    return cast("AgentEnv[Any, Any, Any]", creditflow.make(env.name, **env.options).unwrapped)


def on_panel(env: EnvConfig, panel: str) -> EnvConfig:
    """The environment on a panel "NAME:SPLIT" instead of its configured source.

    Options that name or select that source go; the files that a panel of published tasks is about stay.
    """
    from creditflow.envs.webshop.tasks import RELEASED
    from creditflow.envs.wikisearch.slices import SLICES

    name = panel.partition(":")[0]
    replaced = {"panel", "levels", "level", "generator", "world", "game", "split", "task_types"}
    if name != SLICES:
        replaced |= {"questions", "corpus", "file_format"}
    if env.name == "webshop":
        replaced |= {"goals", "seed"} | (set() if name in RELEASED else {"data"})
    options = {option: value for option, value in env.options.items() if option not in replaced}
    return replace(env, options={**options, "panel": panel})
