"""Environments of a user who does not know this package: texts, with and without a list of actions and a limit."""

from __future__ import annotations

from string import printable
from typing import Any

import gymnasium as gym
from gymnasium.spaces import Text

__all__ = ["Guess", "GuessOn", "GuessWords"]


class Guess(gym.Env):
    """Guess a number; the environment counts its turns, and five of them end the episode."""

    observation_space, action_space = Text(80, charset=printable), Text(80)
    turns_left = 5

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.goal, self.left = (options or {}).get("goal", int(self.np_random.integers(4))), self.turns_left
        return "Guess a number from 0 to 3.", {**self.listed(), "goal": self.goal}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        digit = "".join(filter(str.isdigit, action))
        right = digit == str(self.goal)
        reply = "Right." if right else "Higher." if digit and int(digit) < self.goal else "Lower."
        return reply, float(right), right or self.left == 0, False, self.listed()

    def listed(self) -> dict[str, Any]:
        return {"admissible_actions": [f"say {number}" for number in range(4)]}


class GuessOn(Guess):
    """The same without any limit."""

    turns_left = 10**9


class GuessWords(Guess):
    """The same without a list of actions: whatever the agent writes is its guess."""

    def listed(self) -> dict[str, Any]:
        return {}
