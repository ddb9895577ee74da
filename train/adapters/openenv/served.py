"""What a server plays: an environment with its options, which fields an observation has, the potential of its rewards."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import gymnasium as gym

from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError, short_repr, unknown_name_error
from creditflow.envs.registration import bare_env
from creditflow.envs.tasks import PanelRow, RowTasks
from creditflow.train.adapters.shaping import Shaping

__all__ = ["Served"]

# a step takes microseconds; elsewhere it may take milliseconds, or ask another server, and runs in a thread
INLINE: Final = ("sokoban", "alfworld", "webshop")
TASK_OPTIONS: Final = ("index", "split")
OPTIONS: Final = ("injected_state", "task", "task_id", *TASK_OPTIONS)


@dataclass(frozen=True, kw_only=True)
class Served:
    """What a server plays.

    Attributes:
        name: environment, as in ``creditflow envs``.
        options: arguments of the environment; its observations and actions must be texts.
        observation: "full" (``FullObservation``) or "text" (``TextObservation``, which a policy may see as a whole).
        shaping: shaping of the rewards, or None.
        description: first line of the environment's documentation.
        rows: tasks of its source in published order; () for an endless source.
        inline: whether steps run in the event loop.

    Raises:
        ConfigError: an unknown environment, an argument that it does not take, observations that are not texts.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    observation: Literal["full", "text"] = "full"
    shaping: Shaping | None = None
    description: str = field(init=False, default="")
    rows: tuple[PanelRow, ...] = field(init=False, default=())
    inline: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        if self.observation not in ("full", "text"):
            raise unknown_name_error("kind of observation", str(self.observation), ["full", "text"])
        env, base = self.open()
        text, _ = env.reset(seed=0)
        if not isinstance(text, str) or not isinstance(base.action_space, gym.spaces.Space):
            raise ConfigError(
                f"only text observations are served; {self.name} shows {type(text).__name__} with these options"
            )
        if isinstance(base.action_space, gym.spaces.Discrete):
            raise ConfigError(f"only text actions are served; {self.name} takes numbers with these options")
        rows = base.tasks.rows if isinstance(base.tasks, RowTasks) else ()
        about = (inspect.getdoc(type(base)) or self.name).splitlines()[0]
        for name, value in (("rows", rows), ("description", about), ("inline", base.env_name in INLINE)):
            object.__setattr__(self, name, value)

    def open(self) -> tuple[gym.Env[Any, Any], AgentEnv[Any, Any, Any]]:
        """Return a new environment, with its shaping, and the environment inside."""
        base = bare_env(self.name, dict(self.options))
        return (base if self.shaping is None else self.shaping.wrap(base)), base

    def splits(self) -> tuple[str, ...]:
        """Return the splits of the tasks, in order of appearance.

        Raises:
            NotImplementedError: the tasks are endless (as OpenEnv's Task API expects).
        """
        if not self.rows:
            raise NotImplementedError("the tasks of this environment are endless")
        return tuple(dict.fromkeys(row.split for row in self.rows))

    def split_rows(self, split: str) -> tuple[PanelRow, ...]:
        """Return the tasks of one split.

        Raises:
            ConfigError: no such split.
        """
        if split not in self.splits():
            raise unknown_name_error("split", str(split), self.splits())
        return tuple(row for row in self.rows if row.split == split)

    def reset_options(self, options: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the options of ``AgentEnv.reset`` for those of a request.

        Raises:
            ConfigError: an unknown option, or a split and an index that name no task.
        """
        for name in options:
            if name not in OPTIONS:
                raise unknown_name_error("option of reset", str(name), ["seed", "episode_id", *OPTIONS])
        if not any(name in options for name in TASK_OPTIONS):
            return dict(options) or None
        if set(options) != set(TASK_OPTIONS):
            raise ConfigError("a task is named by split and index together, or by task_id")
        rows, index = self.split_rows(options["split"]), options["index"]
        if type(index) is not int or not 0 <= index < len(rows):
            raise ConfigError(
                f"split {options['split']!r} has tasks 0 to {len(rows) - 1}, got the index {short_repr(index, 80)}"
            )
        return {"task_id": rows[index].task_id}
