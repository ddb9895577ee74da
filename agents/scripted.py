"""Agents that need no learning: random, expert and noisy expert."""

from __future__ import annotations

from collections.abc import Sequence

from creditflow.agents.base import Decision, View
from creditflow.envs.errors import ConfigError, short_repr

__all__ = ["ExpertAgent", "NoisyExpert", "RandomAgent"]


class RandomAgent:
    """Plays uniformly random admissible actions; where none are listed, samples of the action space."""

    name = "random"

    def act(self, views: Sequence[View]) -> list[Decision]:
        """Choose one action per view."""
        return [self._choice(view) for view in views]

    def _choice(self, view: View) -> Decision:
        if actions := view.info["admissible_actions"]:
            return _random_choice(view, actions)
        space = view.env.action_space
        space.seed(int(view.rng.integers(2**31)))  # the episode's own generator decides
        return Decision(space.sample())


class ExpertAgent:
    """Plays the first optimal action of the environment's oracle; a random one in dead states."""

    name = "expert"

    def act(self, views: Sequence[View]) -> list[Decision]:
        """Choose one action per view."""
        decisions = []
        for view in views:
            best = view.oracle.optimal_actions(view.snapshot)
            decisions.append(_decide(view, best[0]) if best else _random_choice(view, view.info["admissible_actions"]))
        return decisions


class NoisyExpert:
    """Plays a random admissible action with probability ``noise``, else a uniformly random optimal one.

    Args:
        noise: probability of a random action, in [0, 1].
    """

    name = "noisy"

    def __init__(self, noise: float = 0.3) -> None:
        if not 0.0 <= noise <= 1.0:
            raise ConfigError(f"noise must lie in [0, 1], got {short_repr(noise)}")
        self.noise = noise

    def act(self, views: Sequence[View]) -> list[Decision]:
        """Choose one action per view."""
        decisions = []
        for view in views:
            best = () if view.rng.random() < self.noise else view.oracle.optimal_actions(view.snapshot)
            decisions.append(_random_choice(view, best or view.info["admissible_actions"]))
        return decisions


def _random_choice(view: View, actions: Sequence[str]) -> Decision:
    if not actions:
        raise ConfigError(
            "scripted agents choose among the actions in info['admissible_actions'], and this environment lists none: its action "
            "space is infinite or too large; write your own agent (creditflow new agent NAME)"
        )
    return _decide(view, actions[int(view.rng.integers(len(actions)))])


def _decide(view: View, text: str) -> Decision:
    return Decision(view.env.action_from_text(text))
