"""A tiny Sokoban task with potentials over all its states, for tests of reward shaping."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

import creditflow
from creditflow.agents.scripted import NoisyExpert
from creditflow.envs.sokoban.levels.xsb import parse_level
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.exact.tasks import sokoban_mdp
from creditflow.train.rollout import play_group
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.potentials import Potentials
from creditflow.wrappers.trajectory import Group

__all__ = ["ACTIONS", "fixed_potential", "mdp", "play", "random_potential", "sokoban", "task_id"]

LEVEL = "#######\n#@ $ .#\n#     #\n#######"
ACTIONS = ("up", "down", "left", "right")


def sokoban(max_steps: int = 12) -> gym.Env[Any, Any]:
    """Make the environment."""
    return creditflow.make("sokoban", level=LEVEL, max_steps=max_steps)


def task_id() -> str:
    """Return the id of the task."""
    env = sokoban()
    return str(env.reset(seed=0)[1]["task_id"])


def mdp(horizon: int = 40) -> FiniteMDP:
    """Return the task as a finite MDP."""
    return sokoban_mdp(parse_level(LEVEL), horizon)


def fixed_potential(values: Any, version: int = 1, goal: float = 1.0) -> Potentials:
    """Return given values of Φ, by index of the state."""
    states = mdp()
    by_key = dict(zip(states.keys[: states.size], map(float, values), strict=True))
    return Potentials(version, {task_id(): by_key}, goal)


def random_potential(seed: int, low: float = -2.0, high: float = 2.0) -> Potentials:
    """Sample Φ of every state."""
    return fixed_potential(np.random.default_rng(seed).uniform(low, high, mdp().size), goal=float(seed % 7))


def play(seed: int = 0, agent: Any = None, size: int = 6) -> Group:
    """Play a group of the task."""
    env = GroupEnv("sokoban", size=size, level=LEVEL, max_steps=12)
    task = env.tasks.get(task_id())
    return play_group(env, agent or NoisyExpert(0.5), task, seed=seed)
