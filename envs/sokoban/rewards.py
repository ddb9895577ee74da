"""Reward presets: what a step pays. Penalties for refused actions belong to wrappers, not here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from creditflow.envs.errors import unknown_name_error

__all__ = ["PRESETS", "Rewards", "reward_preset"]


@dataclass(frozen=True, slots=True)
class Rewards:
    """Terms that add up to the reward of a step.

    Attributes:
        step: for every step, refused ones and bumps included.
        box_on: when a box came onto a target.
        box_off: when one left its target (a push from target to target is neither).
        solved: when every box is on a target.
    """

    step: float
    box_on: float
    box_off: float
    solved: float

    def of(self, gain: int, solved: bool) -> float:
        """The reward of a step that changed the number of boxes on targets by ``gain``."""
        reward = self.step
        if gain:
            reward += self.box_on if gain > 0 else self.box_off
        return reward + self.solved if solved else reward


PRESETS: Final[Mapping[str, Rewards]] = {
    "sparse": Rewards(step=0.0, box_on=0.0, box_off=0.0, solved=1.0),
    "ten": Rewards(step=0.0, box_on=0.0, box_off=0.0, solved=10.0),
    "gym_sokoban": Rewards(step=-0.1, box_on=1.0, box_off=-1.0, solved=10.0),
}


def reward_preset(name: str) -> Rewards:
    """The preset of this name.

    Raises:
        ConfigError: there is none; suggests the near one.
    """
    if not isinstance(name, str) or name not in PRESETS:
        raise unknown_name_error("Sokoban reward", str(name), PRESETS)
    return PRESETS[name]
