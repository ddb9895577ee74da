"""Agents that need no learning: random, expert, and an expert that errs."""

from __future__ import annotations

from collections.abc import Sequence

from creditflow.agents.base import Decision, View
from creditflow.envs.errors import ConfigError, short_repr

__all__ = ["ExpertAgent", "NoisyExpert", "RandomAgent"]


class RandomAgent:
    """A uniformly drawn admissible action."""

    name = "random"

    def act(self, views: Sequence[View]) -> list[Decision]:
        """Choose one action per view."""
        return [_drawn(view, view.info["admissible_actions"]) for view in views]


class ExpertAgent:
    """The first optimal action by the environment's oracle; a random one where success is out of reach."""

    name = "expert"

    def act(self, views: Sequence[View]) -> list[Decision]:
        """Choose one action per view."""
        decisions = []
        for view in views:
            best = view.oracle.optimal_actions(view.snapshot)
            decisions.append(_taken(view, best[0]) if best else _drawn(view, view.info["admissible_actions"]))
        return decisions


class NoisyExpert:
    """With probability ``noise`` a random admissible action, else a uniformly drawn optimal one.

    Args:
        noise: in [0, 1].
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
            decisions.append(_drawn(view, best or view.info["admissible_actions"]))
        return decisions


def _drawn(view: View, actions: Sequence[str]) -> Decision:
    return _taken(view, actions[int(view.rng.integers(len(actions)))])


def _taken(view: View, text: str) -> Decision:
    return Decision(view.env.action_from_text(text))
