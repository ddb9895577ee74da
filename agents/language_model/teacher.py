"""A teacher: a scripted agent that writes its actions down as a language model would, for supervised warm-up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from creditflow.agents.backends.base import Sampled
from creditflow.agents.base import Decision, View
from creditflow.agents.language_model.agent import Conversations
from creditflow.agents.language_model.parsing import Dialect
from creditflow.envs.errors import ConfigError, short_repr

__all__ = ["TeacherAgent"]


class TeacherAgent:
    """Plays the oracle's actions with some noise, and gives the tokens that a model would have had to write.

    Args:
        conversations, dialect: as of the agent that is to learn.
        noise: probability of a random admissible action instead of an optimal one.
        imitate_noise: whether random actions are imitated too; if not, they only lead to other states.
    """

    name = "teacher"

    def __init__(
        self, conversations: Conversations, dialect: Dialect, *, noise: float = 0.0, imitate_noise: bool = True
    ) -> None:
        if not 0.0 <= noise <= 1.0:
            raise ConfigError(f"noise must lie in [0, 1], got {short_repr(noise)}")
        self.conversations, self.dialect, self.noise, self.imitate_noise = conversations, dialect, noise, imitate_noise

    def act(self, views: Sequence[View]) -> list[Decision]:
        """One decision per view."""
        return [self._decide(view) for view in views]

    def _decide(self, view: View) -> Decision:
        best = () if view.rng.random() < self.noise else view.oracle.optimal_actions(view.snapshot)
        offered = best or view.info["admissible_actions"]
        action = offered[int(view.rng.integers(len(offered)))]
        response = self.dialect.write(action)
        ids = self.conversations.chat.close(response)
        tokens = self.conversations.answer(
            self.conversations.ask(view),
            Sampled(ids, np.zeros(len(ids), np.float32)),
            learn=bool(best) or self.imitate_noise,
        )
        return Decision(action=action, response=response, tokens=tokens)
