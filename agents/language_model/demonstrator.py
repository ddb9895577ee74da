"""The noisy expert with the tokens that a language model would have generated for its actions, for SFT."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from creditflow.agents.backends.base import Completion
from creditflow.agents.base import Decision, View
from creditflow.agents.language_model.agent import Conversations
from creditflow.agents.language_model.parsing import Dialect
from creditflow.envs.errors import ConfigError, short_repr

__all__ = ["DemonstratingExpert"]


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
        ids = self.conversations.chat.encode_completion(response)
        tokens = self.conversations.record_completion(
            self.conversations.build_prompt(view),
            Completion(ids, np.zeros(len(ids), np.float32)),
            in_loss=bool(best) or self.imitate_noise,
        )
        return Decision(action=action, response=response, tokens=tokens)
