"""What a server plays (``Served``), and ``ServedEnv``: one of our environments behind OpenEnv's interface, one instance per session."""

from __future__ import annotations

import asyncio
import inspect
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

import gymnasium as gym
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import EnvironmentMetadata

from creditflow import __version__
from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError, EpisodeError, short_repr, unknown_name_error
from creditflow.envs.info import INFO_TYPES
from creditflow.envs.registration import bare_env
from creditflow.train.adapters.openenv.client import FullObservation, PlayAction, PlayState, TextObservation

__all__ = ["Served", "ServedEnv"]


# a step takes microseconds; elsewhere it may take milliseconds, or ask another server, and runs in a thread
INLINE: Final = ("sokoban", "alfworld", "webshop")
OPTIONS: Final = ("injected_state", "task", "task_id")


@dataclass(frozen=True, kw_only=True)
class Served:
    """What a server plays.

    Attributes:
        name: environment, as in ``creditflow envs``.
        options: arguments of the environment; its observations and actions must be texts.
        observation: "full" (``FullObservation``) or "text" (``TextObservation``, which a policy may see as a whole).
        description: first line of the environment's documentation.
        inline: whether steps run in the event loop.

    Raises:
        ConfigError: an unknown environment, an argument that it does not take, observations that are not texts.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    observation: Literal["full", "text"] = "full"
    description: str = field(init=False, default="")
    inline: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        if self.observation not in ("full", "text"):
            raise unknown_name_error("kind of observation", str(self.observation), ["full", "text"])
        base = self.open()
        text, _ = base.reset(seed=0)
        if not isinstance(text, str) or not isinstance(base.action_space, gym.spaces.Space):
            raise ConfigError(
                f"only text observations are served; {self.name} shows {type(text).__name__} with these options"
            )
        if isinstance(base.action_space, gym.spaces.Discrete):
            raise ConfigError(f"only text actions are served; {self.name} takes numbers with these options")
        about = (inspect.getdoc(type(base)) or self.name).splitlines()[0]
        for name, value in (("description", about), ("inline", base.env_name in INLINE)):
            object.__setattr__(self, name, value)

    def open(self) -> AgentEnv[Any, Any, Any]:
        """Return a new environment."""
        return bare_env(self.name, dict(self.options))


MAX_SEED = 2**63 - 1
MAX_EPISODE_ID = 255
COPIED = ("task_id", "state_key", "text_key", "action_valid", "action_effective", "success", "score", "elapsed_steps")
OWN = frozenset(INFO_TYPES)  # the others are the environment's


class ServedEnv(Environment[PlayAction, TextObservation, PlayState]):
    """One session. Cheap to make, since OpenEnv makes one for each plain HTTP request: the environment opens at the first reset.

    Args:
        served: what the server plays.
    """

    SUPPORTS_CONCURRENT_SESSIONS: bool = True  # nothing is shared but read-only data

    def __init__(self, served: Served) -> None:
        super().__init__()
        self._served = served
        self._env: AgentEnv[Any, Any, Any] | None = None
        self._episode = ""
        self._info: Mapping[str, Any] = {}

    def reset(self, seed: int | None = None, episode_id: str | None = None, **options: Any) -> TextObservation:
        """Start an episode.

        Args:
            seed: selects the task, the same one on every machine.
            episode_id: name of the episode in ``state``; default: a new one.
            **options: ``task_id`` (with or without ``task``, its content), or ``injected_state`` (a snapshot of ``state``),
                instead of ``seed``.

        Raises:
            ConfigError: an unknown option, or a value of the wrong type.
            UnknownTaskError: the server does not have this task.
            DataError: a malformed task or snapshot.
        """
        if seed is not None and (type(seed) is not int or not 0 <= seed <= MAX_SEED):
            raise ConfigError(f"seed must be an integer from 0 to 2**63 - 1, got {short_repr(seed, 80)}")
        if episode_id is not None and (not isinstance(episode_id, str) or len(episode_id) > MAX_EPISODE_ID):
            raise ConfigError(
                f"episode_id must be a text of at most {MAX_EPISODE_ID} characters, got {short_repr(episode_id, 80)}"
            )
        for name in options:
            if name not in OPTIONS:
                raise unknown_name_error("option of reset", str(name), ["seed", "episode_id", *OPTIONS])
        if self._env is None:
            self._env = self._served.open()
        snapshot = options.pop("injected_state", None)
        if snapshot is None:
            text, info = self._env.reset(seed=seed, options=options or None)
        elif seed is not None or options:
            raise ConfigError("injected_state contains the task: give no seed and no other option")
        elif not isinstance(snapshot, str):
            raise ConfigError(f"injected_state is the text of a snapshot, got {type(snapshot).__name__}")
        else:
            text, info = self._env.set_state(snapshot)
        self._episode = episode_id or uuid.uuid4().hex
        return self._observation(text, info, None)

    def step(self, action: PlayAction, timeout_s: float | None = None) -> TextObservation:  # noqa: ARG002 - OpenEnv's
        """Execute one action.

        Raises:
            EpisodeError: before ``reset`` or after the end of the episode.
        """
        if self._env is None:
            raise EpisodeError(
                "no episode is running: call reset() before step(), on the same WebSocket (/ws); OpenEnv's plain HTTP "
                "requests have no session"
            )
        text, reward, terminated, truncated, info = self._env.step(action.action)
        return self._observation(text, info, float(reward), terminated, truncated)

    async def step_async(self, action: PlayAction, timeout_s: float | None = None) -> TextObservation:
        """Execute one action: at once where a step takes less time than changing threads, else in a thread."""
        if self._served.inline:
            return self.step(action, timeout_s)
        return await asyncio.to_thread(self.step, action, timeout_s)

    @property
    def state(self) -> PlayState:
        """State of the session."""
        if not self._info or self._env is None:
            return PlayState()
        info, env = self._info, self._env
        return PlayState(
            episode_id=self._episode,
            step_count=info["elapsed_steps"],
            task_id=info["task_id"],
            state_key=info["state_key"],
            success=info["success"],
            score=info["score"],
            done=env.is_over,
            snapshot=env.get_state(),
        )

    def get_metadata(self) -> EnvironmentMetadata:
        """Return name, description and version."""
        return EnvironmentMetadata(name=self._served.name, description=self._served.description, version=__version__)

    def close(self) -> None:
        """Close the environment."""
        if self._env is not None:
            self._env.close()

    def _observation(
        self, text: str, info: dict[str, Any], reward: float | None, terminated: bool = False, truncated: bool = False
    ) -> TextObservation:
        """Return the observation; its values are our own, so they are not validated again."""
        self._info, env = info, cast("AgentEnv[Any, Any, Any]", self._env)
        visible = {
            "text": text,
            "invalid_reason": info["invalid_reason"],
            "done": env.is_over,
            "reward": reward,
            "metadata": {},
        }
        if self._served.observation == "text":
            short: TextObservation = TextObservation.model_construct(**visible)
            return short
        full: TextObservation = FullObservation.model_construct(
            **visible,
            **{name: info[name] for name in COPIED},
            admissible_actions=[] if env.actions_reveal_answer else list(info["admissible_actions"]),
            lists_all_actions=env.lists_all_actions,
            terminated=terminated,
            truncated=truncated,
            extra={name: value for name, value in info.items() if name not in OWN},
        )
        return full
