"""Our environments as environments of GEM: importing this module registers them, ``creditflow:NAME`` each.

    import gem
    import creditflow.train.adapters.gem.env
    env = gem.make("creditflow:alfworld", panel="standard-v3:train")

An action is a model's whole completion, an observation the next text that the model reads: first the prompt, then what the
environment shows. GEM's wrappers and vector environments apply. Unlike GEM's own games, a reset seeds no global generator.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

import numpy as np

from creditflow.envs.errors import ConfigError, DataError, EpisodeError, short_repr, unknown_name_error
from creditflow.envs.tasks import Task
from creditflow.train.adapters.gem.credit import PREVIOUS, final_info, step_info
from creditflow.train.adapters.releases import GEM
from creditflow.train.adapters.text_episode import EpisodeConfig, TextEpisode, one_member
from creditflow.train.settings.reading import read_dataclass
from creditflow.wrappers.records.stop_reasons import STOP_REASONS, TRUNCATED

GEM.require()

import gem
from gem.envs.registration import ENV_REGISTRY
from gem.utils.constants import TERMINAL_STATE

__all__ = ["PREFIX", "CreditEnv", "register_envs"]

PREFIX: Final = "creditflow:"
MAX_SEED: Final = 2**63 - 1
_TAGGED: Final = {"prompting": {"prompt": "think-v1", "dialect": "think"}}
PRESETS: Final[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {
    "sokoban": {**_TAGGED, "options": {"symbols": "ascii"}},
    "alfworld": {**_TAGGED, "options": {}},
    "webshop": {**_TAGGED, "options": {}},
    "wikisearch": {"prompting": {"prompt": "search-v1", "dialect": "bare"}, "options": {"dialect": "search_r1"}},
}


class CreditEnv(gem.Env):
    """One of our environments.

    Args:
        name: "sokoban", "alfworld", "webshop" or "wikisearch".
        seed: of the tasks that resets without a seed draw.
        task: content of the one task that every reset plays; None draws tasks from the environment's source.
        max_turns: an episode is truncated after so many turns; 0 leaves the environment's own limit.
        prompting: fields of ``PromptingConfig`` over the preset's; the history is GEM's.
        **options: arguments of the environment, such as ``panel``, over the preset's.

    Raises:
        ConfigError: an unknown environment or wrong settings.
    """

    def __init__(
        self,
        name: str,
        *,
        seed: int = 0,
        task: Mapping[str, Any] | None = None,
        max_turns: int = 0,
        prompting: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        if name not in PRESETS:
            raise unknown_name_error("environment", str(name), PRESETS)
        if type(max_turns) is not int or max_turns < 0:
            raise ConfigError(f"max_turns must be an integer of at least 0, got {short_repr(max_turns)}")
        preset = PRESETS[name]
        sections = {
            "env": {"name": name, "options": {**preset["options"], **options}},
            "prompting": {**preset["prompting"], **(prompting or {})},
        }
        self._given: dict[str, Any] = {
            "name": name,
            "seed": seed,
            "task": task,
            "max_turns": max_turns,
            "prompting": prompting,
            **options,
        }
        self._play = read_dataclass(EpisodeConfig, {**sections, "budget": {"turns": max_turns}}, f"{PREFIX}{name}")
        self._group = one_member(self._play.env)
        self._source = self._group.tasks
        self._fixed = None if task is None else self._source.from_content(dict(task))
        self._rng = np.random.default_rng([_seed(seed), 5])
        self._episode: TextEpisode | None = None
        self._started: tuple[Task, int] | None = None
        self._completions: list[str] = []

    def reset(self, seed: int | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: chooses the task, unless the environment has one, and the noise; None takes the next of this environment.

        Returns:
            The prompt, and ``info`` (``infos.step_info``); with record and success of the episode before, under
            ``prev_ep_creditflow`` and ``prev_ep_won``, as vector environments drop the info of last steps.

        Raises:
            DataError: not a seed.
        """
        number = int(self._rng.integers(MAX_SEED)) if seed is None else _seed(seed)
        task = self._fixed or self._source.sample(np.random.default_rng(number))
        before = final_info(self._episode, PREVIOUS)
        return self._begin(task, number), {**step_info(self._running()), **before}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take the action that a completion states; one that states none is an invalid action.

        Raises:
            EpisodeError: before the first reset, or after the end.
            DataError: the completion is not a text.
        """
        episode = self._running()
        reply = episode.step(action)
        self._completions.append(action)
        truncated = reply.done and STOP_REASONS[episode.trajectory.stop_reason] == TRUNCATED
        text = TERMINAL_STATE if reply.done else reply.text
        return text, reply.reward, reply.done and not truncated, truncated, step_info(episode)

    def sample_random_action(self) -> str:
        """A completion that states one of the listed actions; a random one only if all are listed.

        Raises:
            EpisodeError: no episode is running.
        """
        listed = [text for text in self._running().info["admissible_actions"] if text]
        if not listed:
            raise EpisodeError("the episode has ended: call reset() first")
        return self._running().write(listed[int(self._rng.integers(len(listed)))])

    def spawn(self, same_state: bool = False, **kwargs: Any) -> Self:
        """Another environment with these settings.

        Args:
            same_state: in the state of this one's episode: the same task and noise, its completions played again (each search
                of a retrieval server is repeated).
            **kwargs: settings that differ; beside ``same_state`` only ``seed``.

        Raises:
            ConfigError: other settings beside ``same_state``.
        """
        if same_state and (refused := sorted(set(kwargs) - {"seed"})):
            raise ConfigError(
                f"an environment in the same state has the same settings: {', '.join(refused)} cannot differ"
            )
        copy = type(self)(**{**self._given, **kwargs})
        if same_state and self._started is not None:
            copy._begin(*self._started)
            for text in self._completions:
                copy.step(text)
        return copy

    def _begin(self, task: Task, seed: int) -> str:
        """Start an episode; its prompt."""
        self._started, self._completions = (task, seed), []
        self._episode = TextEpisode(self._play, task.content, group_id=task.task_id, replica=seed, env=self._group)
        return "\n\n".join(message["content"] for message in self._episode.messages)

    def _running(self) -> TextEpisode:
        if self._episode is None:
            raise EpisodeError("no episode has started: call reset() first")
        return self._episode


def register_envs() -> None:
    """Register our environments with GEM, once per process."""
    for name in PRESETS:
        if f"{PREFIX}{name}" not in ENV_REGISTRY:
            gem.register(f"{PREFIX}{name}", f"{__name__}:{CreditEnv.__name__}", name=name)


def _seed(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 0 <= value <= MAX_SEED:
        raise DataError(f"a seed is an integer from 0 to 2⁶³ − 1, got {short_repr(value)}")
    return int(value)


register_envs()
