"""Lists of tasks for trainers that take them at the start."""

from __future__ import annotations

from typing import Final

from creditflow.envs.errors import ConfigError
from creditflow.envs.registration import maker
from creditflow.envs.tasks import Task, TaskSource
from creditflow.train.settings.schema import EnvConfig
from creditflow.wrappers.group_env import GroupEnv

__all__ = ["one_member", "panel_tasks"]

_SOURCES: Final = frozenset(
    {"panel", "levels", "level", "generator", "world", "game"}
)  # options that name a source of tasks


def panel_tasks(env: EnvConfig, *, panel: str = "", count: int = 0) -> list[Task]:
    """The tasks of a panel "NAME:SPLIT", or of the environment's own source.

    Args:
        env: the environment.
        panel: replaces the source that its options name.
        count: only the first tasks; 0 takes all.

    Raises:
        ConfigError: an endless source, whose tasks have no order, or a negative count.
    """
    if count < 0:
        raise ConfigError(f"count is a number of tasks, or 0 for all; got {count}")
    options = {name: value for name, value in env.options.items() if not (panel and name in _SOURCES)}
    played = EnvConfig(name=env.name, options={**options, "panel": panel} if panel else options)
    source: TaskSource = one_member(played).tasks
    ids = source.task_ids()
    if not ids:
        raise ConfigError(
            "this task source is endless, and other trainers take lists of tasks: name a panel such as 'small-v1:train'"
        )
    return [source.get(name) for name in (ids[:count] if count else ids)]


def one_member(env: EnvConfig) -> GroupEnv:
    """A group of one, which records texts."""
    made = maker(env.name, env.options)
    return GroupEnv(made, size=1, invalid_actions=env.invalid_actions, texts=True, policy="lm")
