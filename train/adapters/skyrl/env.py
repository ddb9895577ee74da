"""Our environments as a text environment of SkyRL-gym, registered as ``creditflow``.

A row of the data set names the task in ``extra_info["task"]`` (JSON text, as ``verl.data`` writes it); the configuration of the
environment is ``EpisodeConfig``'s sections ``env`` and ``prompting``. At the end ``get_metrics`` also returns the episode's record,
which SkyRL's generator passes on in its output's ``env_metrics``; ``close`` leaves the same in the row's columns, for ``credited``.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from creditflow.envs.errors import EpisodeError
from creditflow.train.adapters.releases import SKYRL_GYM
from creditflow.train.adapters.skyrl.credit import METRICS
from creditflow.train.adapters.text_episode import EpisodeConfig, TextEpisode, metrics_of, task_content
from creditflow.train.settings.reading import plain_section, read_dataclass
from creditflow.wrappers.credit.bridge import FIELD

SKYRL_GYM.require()

from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput
from skyrl_gym.envs.registration import register, registry

__all__ = ["NAME", "CreditTextEnv", "register_env"]

NAME = "creditflow"


class CreditTextEnv(BaseTextEnv):
    """One episode.

    Args:
        env_config: sections ``env``, ``prompting``, ``budget`` of ``EpisodeConfig``; a mapping, or SkyRL's own configuration.
        extras: the row's further columns.

    Raises:
        ConfigError: wrong settings.
        DataError: the row names no task.
    """

    def __init__(self, env_config: Any = None, extras: MutableMapping[str, Any] | None = None) -> None:
        super().__init__()
        self._extras = {} if extras is None else extras
        self._play = read_dataclass(EpisodeConfig, plain_section(env_config) or {}, f"environment.skyrl_gym.{NAME}")
        row = (extras or {}).get("extra_info") or {}
        self._content = task_content(row)
        self._group, self._replica = str(row.get("task_id", "task")), int(row.get("replica", 0))
        self._episode: TextEpisode | None = None
        self.max_turns = int((extras or {}).get("max_turns", 0)) or 2**31

    def init(self, prompt: Any) -> tuple[list[dict[str, str]], dict[str, Any]]:
        """Start the episode; its own first messages replace the data set's prompt."""
        del prompt
        self.turns = 0
        self._episode = TextEpisode(self._play, self._content, group_id=self._group, replica=self._replica)
        return self._episode.messages, {}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """Take one turn.

        Raises:
            EpisodeError: before ``init``, or after the end.
        """
        episode = self._running()
        self.turns += 1
        reply = episode.step(action)
        if not reply.done and self.turns >= self.max_turns:
            episode.stop("env_limit")
        text = [] if episode.done else [{"role": "user", "content": reply.text}]
        return BaseTextEnvStepOutput(observations=text, reward=reply.reward, done=episode.done, metadata={})

    def get_metrics(self) -> dict[str, Any]:
        """Success, score and turns, and the record; SkyRL calls this once, at the end, which may be a limit of its own."""
        episode = self._running()
        episode.stop("token_limit")
        played = episode.trajectory
        return {**metrics_of(played), "return": played.episode_return, FIELD: episode.record()}

    def close(self) -> None:
        """Leave the metrics where the generator's last hook finds them."""
        if self._episode is not None:
            self._extras[METRICS] = self.get_metrics()

    def _running(self) -> TextEpisode:
        if self._episode is None:
            raise EpisodeError("no episode is running: call init() first")
        return self._episode


def register_env() -> None:
    """Register the environment with SkyRL-gym, once per process."""
    if NAME not in registry:
        register(NAME, entry_point=f"{__name__}:{CreditTextEnv.__name__}")
