"""Reward presets. Any further penalty for rejected actions is added by wrappers."""

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
        step: added in every step that makes a move, a bump too.
        rejected: the reward of a rejected action.
        box_on: added when a box is pushed onto a target.
        box_off: added when a box is pushed off its target (a push from target to target is neither).
        solved: added when every box is on a target.
    """

    step: float
    rejected: float
    box_on: float
    box_off: float
    solved: float

    def of(self, gain: int, solved: bool) -> float:
        """Return the reward of a step that changed the number of boxes on targets by ``gain``."""
        reward = self.step
        if gain:
            reward += self.box_on if gain > 0 else self.box_off
        return reward + self.solved if solved else reward


PRESETS: Final[Mapping[str, Rewards]] = {
    "sparse": Rewards(step=0.0, rejected=0.0, box_on=0.0, box_off=0.0, solved=1.0),
    "ten": Rewards(step=0.0, rejected=0.0, box_on=0.0, box_off=0.0, solved=10.0),
    "gym_sokoban": Rewards(step=-0.1, rejected=-0.1, box_on=1.0, box_off=-1.0, solved=10.0),
    "ragen": Rewards(step=-0.1, rejected=0.0, box_on=1.0, box_off=-1.0, solved=10.0),
}


def reward_preset(name: str) -> Rewards:
    """Return a preset by name.

    Raises:
        ConfigError: unknown name; suggests the nearest one.
    """
    if not isinstance(name, str) or name not in PRESETS:
        raise unknown_name_error("Sokoban reward", str(name), PRESETS)
    return PRESETS[name]
