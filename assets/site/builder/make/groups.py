"""Recorded groups that the site shows: eight rollouts of one task each, played again at each build."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from creditflow.agents import NoisyExpert
from creditflow.train.commands.demo import example_group
from creditflow.train.rollout import play_group
from creditflow.wrappers import Group, GroupEnv

__all__ = ["GROUPS"]

SOKOBAN: Final = (
    "sokoban1:265026cd448806692a4e5cb4db5dc23b"  # three rollouts solve it, three push the box into a dead end
)
ALFWORLD: Final = "alfworld1:941a8aca1de523b50d869ef91ea67b3b"  # four rollouts put the soap bottle on the garbage can


def _sokoban() -> Group:
    env = GroupEnv("sokoban", size=8, panel="easy-v1:train", max_steps=8)
    return play_group(env, NoisyExpert(0.5), env.tasks.get(SOKOBAN))


def _alfworld() -> Group:
    env = GroupEnv("alfworld", size=8, panel="standard-v3:train", max_steps=8)
    return play_group(env, NoisyExpert(0.5), env.tasks.get(ALFWORLD))


# by environment, as it is called on pages
GROUPS: Final[Mapping[str, Callable[[], Group]]] = {
    "WebShop": example_group,
    "Sokoban": _sokoban,
    "ALFWorld": _alfworld,
}
