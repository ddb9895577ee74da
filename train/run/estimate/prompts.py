"""How long prompts and episodes are: measured on a few episodes of the environment's expert."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from creditflow.agents.base import Decision, View
from creditflow.agents.language_model.parsing import make_dialect
from creditflow.agents.prompts import make_prompt, slots_of
from creditflow.agents.prompts.template import PICTURE
from creditflow.agents.scripted import ExpertAgent
from creditflow.envs.registration import maker
from creditflow.envs.tasks import Task
from creditflow.train.rollout.engine import RolloutEngine
from creditflow.train.settings.schema import TrainConfig
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.records.pictures import picture_in

__all__ = ["EPISODES", "Prompts", "measured_prompts", "rough_tokens"]

EPISODES: Final = 8  # of the expert; tasks at equal distances in the list
PIXELS: Final = 28 * 28  # that one token of a picture stands for in the Qwen-VL families
_PIECE: Final = re.compile(r"[^\W\d_]+|\d|[^\w\s]|_")


@dataclass(frozen=True, slots=True)
class Prompts:
    """Lengths in tokens, means over the expert's episodes.

    Attributes:
        turns: turns of an episode.
        limit: most turns that the environment, or the run's own budget, allows.
        first: the first prompt with the system message.
        later: what every later turn adds: a prompt of its own (history "window"), or a message ("append").
        action: a completion that writes an action without a thought.
        pictures: tokens of pictures in a prompt; they are counted in ``first`` and ``later`` too.
        longest: tokens of the longest prompt with its completion, in an episode of ``limit`` turns.
    """

    turns: float
    limit: int
    first: float
    later: float
    action: float
    pictures: float = 0.0
    longest: int = 0


def rough_tokens(text: str) -> int:
    """Tokens of a text without a tokenizer: one per word, digit and mark.

    >>> rough_tokens("You see a drawer 12.")
    7
    """
    return len(_PIECE.findall(text))


def measured_prompts(
    settings: TrainConfig, tasks: Sequence[Task], count: Callable[[str], int] = rough_tokens
) -> Prompts:
    """Play the expert on a few tasks, and fill the run's prompts on the way.

    Args:
        settings: settings of the run.
        tasks: the run's tasks.
        count: number of tokens of a text.

    Raises:
        CreditflowError: the environment has no oracle, or the prompt does not fit it.
    """
    env = settings.env
    agent = _Reader(settings, count)
    engine = RolloutEngine(
        lambda: GroupEnv(
            maker(env.name, env.options), size=1, invalid_actions=env.invalid_actions, texts=True, policy="lm"
        )
    )
    step = max(1, len(tasks) // EPISODES)
    engine.play(agent, list(tasks[::step][:EPISODES]), seed=settings.seed)
    limit = min(filter(None, (agent.limit, settings.rollout.max_turns)))
    first = float(np.mean(agent.first))
    if settings.prompting.history == "window":
        longest = max(agent.first + agent.later) + settings.rollout.max_new_tokens
    else:
        longest = max(agent.first) + (limit - 1) * max(agent.later, default=0) + limit * settings.rollout.max_new_tokens
    return Prompts(
        turns=min(float(limit), 1.0 + len(agent.later) / len(agent.first)),
        limit=limit,
        first=first,
        later=float(np.mean(agent.later)) if agent.later else first,
        action=float(np.mean(agent.actions)),
        pictures=float(np.mean(agent.pictures)),
        longest=longest,
    )


@dataclass
class _Reader(ExpertAgent):
    """The expert, which counts every prompt that a model would be shown, and the text of its own action."""

    settings: TrainConfig
    count: Callable[[str], int]
    limit: int = 0
    first: list[int] = field(default_factory=list)
    later: list[int] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    pictures: list[int] = field(default_factory=list)

    def act(self, views: Sequence[View]) -> list[Decision]:
        """One decision per view."""
        prompting = self.settings.prompting
        prompt, dialect = make_prompt(prompting.prompt), make_dialect(prompting.dialect)
        windowed = prompting.history == "window"
        for view in views:
            self.limit = view.env.max_steps
            slots = slots_of(prompt, view, prompting.window)
            part = "windowed" if windowed else "later"
            if not view.turns:
                part = "first"
            whole = windowed or not view.turns
            text = (prompt.fill("system", slots) if whole else "") + prompt.fill(part, slots)
            shown = prompt.pictures(part) * _picture_tokens(view.observation)
            length = self.count(text.replace(PICTURE, "")) + shown
            (self.later if view.turns else self.first).append(length)
            self.pictures.append(shown)
        decisions = super().act(views)
        for decision in decisions:
            if isinstance(decision.action, str):
                self.actions.append(self.count(dialect.write(decision.action)))
        return decisions


def _picture_tokens(observation: Any) -> int:
    pixels = picture_in(observation)
    return 0 if pixels is None else pixels.shape[0] * pixels.shape[1] // PIXELS
