"""Demonstrations for SFT: a noisy expert, or recorded episodes, with the tokens that a language model would have generated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from creditflow.agents.backends.base import Completion
from creditflow.agents.base import Decision, TurnTokens, View
from creditflow.agents.language_model.agent import Conversations
from creditflow.agents.language_model.parsing import Dialect
from creditflow.envs.errors import ConfigError, DataError, short_repr
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["DemonstratingExpert", "RecordedDemonstrations"]


class DemonstratingExpert:
    """Plays the oracle's optimal actions with some noise, and encodes them as completions of a model.

    Args:
        conversations, dialect: those of the agent to be trained.
        noise: probability of a random admissible action instead of an optimal one.
        imitate_noise: whether random actions enter the loss too; if not, they only lead to other states.
    """

    name = "expert"

    def __init__(
        self, conversations: Conversations, dialect: Dialect, *, noise: float = 0.0, imitate_noise: bool = True
    ) -> None:
        if not 0.0 <= noise <= 1.0:
            raise ConfigError(f"noise must lie in [0, 1], got {short_repr(noise)}")
        self.conversations, self.dialect, self.noise, self.imitate_noise = conversations, dialect, noise, imitate_noise

    def act(self, views: Sequence[View]) -> list[Decision]:
        """Choose one action per view."""
        return [self._decide(view) for view in views]

    def _decide(self, view: View) -> Decision:
        best = () if view.rng.random() < self.noise else view.oracle.optimal_actions(view.snapshot)
        candidates = best or view.info["admissible_actions"]
        action = candidates[int(view.rng.integers(len(candidates)))]
        response = self.dialect.write(action)
        tokens = _encoded(self.conversations, view, response, in_loss=bool(best) or self.imitate_noise)
        return Decision(action=action, response=response, tokens=tokens)


class RecordedDemonstrations:
    """Repeats recorded episodes in their environment, and encodes their responses as completions of a model.

    A response that was not recorded is written from the thought and the action. Turns that were invalid are repeated, because
    later ones depend on them, but are not in the loss.

    Args:
        conversations, dialect: those of the agent to be trained.
        episodes: the recorded episode of every task, by task id.
    """

    name = "recorded"

    def __init__(self, conversations: Conversations, dialect: Dialect, episodes: Mapping[str, Trajectory]) -> None:
        self.conversations, self.dialect, self.episodes = conversations, dialect, episodes

    def act(self, views: Sequence[View]) -> list[Decision]:
        """The recorded decision of every view; an episode that was recorded no further is stopped.

        Raises:
            DataError: the environment shows something else than what was recorded.
        """
        return [self._decide(view) for view in views]

    def _decide(self, view: View) -> Decision:
        episode, number = self.episodes[view.env.task.task_id], len(view.turns)
        if number >= len(episode.turns):
            return Decision("", stop="token_limit")
        turn = episode.turns[number]
        if turn.observation and isinstance(view.observation, str) and turn.observation != view.observation:
            raise DataError(
                f"trajectory {episode.trajectory_id!r}, turn {number}: was recorded in another environment; it shows "
                f"{short_repr(view.observation, 80)} instead of {short_repr(turn.observation, 80)}"
            )
        response = turn.response or self.dialect.write(turn.action, turn.thought)
        tokens = _encoded(self.conversations, view, response, in_loss=turn.valid)
        return Decision(turn.action, turn.thought, response, "" if turn.parsed else turn.invalid_reason, tokens)


def _encoded(conversations: Conversations, view: View, response: str, *, in_loss: bool) -> TurnTokens:
    """The tokens of a turn in which a model answered a view with this response."""
    ids = conversations.chat.encode_completion(response)
    completion = Completion(ids, np.zeros(len(ids), np.float32))
    return conversations.record_completion(conversations.build_prompt(view), completion, in_loss=in_loss)
