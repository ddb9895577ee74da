"""Sokoban's vector environment for numeric reinforcement learning: with its own reward, or a dense one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from creditflow.envs.errors import check_name
from creditflow.envs.sokoban.snapshot import cached_level
from creditflow.envs.sokoban.state_values import moves_left_by_key
from creditflow.envs.sokoban.vector import SokobanVectorEnv
from creditflow.envs.tasks import parse_panel_spec
from creditflow.wrappers.potentials import Potentials
from creditflow.wrappers.vector_dense_reward import VectorDenseReward

__all__ = ["REWARDS", "distance_potentials", "make_envs", "success_by_task"]

REWARDS: Final = ("sparse", "rewardflow", "distance")


def distance_potentials(panel: str, limit: int) -> Potentials:
    """Return Φ(s) = −V*(s) / limit, V* the fewest moves to the goal, for the unsolved states of a panel's tasks that are not dead."""
    values = {}
    for row in parse_panel_spec("sokoban", panel):
        level = cached_level(str(row.locator["xsb"]))
        values[row.task_id] = {key: -moves / limit for key, moves in moves_left_by_key(level).items()}
    return Potentials(1, values)


def make_envs(reward: str, num_envs: int, *, panel: str, gamma: float) -> VectorEnv[Any, Any, Any]:
    """Make environments with planes as observations and ``autoreset_mode="SameStep"``.

    Args:
        reward: "sparse" (1 when solved); "rewardflow": with the shaping by RewardFlow's potential, learned from the episodes
            played; "distance": with the shaping by the exact distance to the goal, which no method knows, for comparison.
        num_envs: number of environments.
        panel: "<panel>:<split>".
        gamma: the trainer's discount.

    Raises:
        ConfigError: an unknown reward.
    """
    check_name("reward", reward, REWARDS)
    envs = SokobanVectorEnv(
        num_envs, autoreset_mode="SameStep", panel=panel, obs_mode="planes", action_mode="discrete", grid_shape=[6, 6]
    )
    if reward == "sparse":
        return envs
    if reward == "distance":  # a dead state keeps the potential of the last one from which there was a way
        return VectorDenseReward(
            envs, "oracle", store=distance_potentials(panel, envs.max_steps), gamma=gamma, truncation="bootstrap"
        )
    return VectorDenseReward(envs, reward, gamma=gamma, truncation="bootstrap", publish_every=num_envs)


def success_by_task(
    act: Callable[[NDArray[Any]], NDArray[np.int64]], panel: str, task_ids: Sequence[str]
) -> NDArray[np.bool_]:
    """Play each task once, all at the same time, without shaping; return whether it was solved, bool (tasks,)."""
    envs = SokobanVectorEnv(
        len(task_ids),
        autoreset_mode="SameStep",
        panel=panel,
        obs_mode="planes",
        action_mode="discrete",
        grid_shape=[6, 6],
    )
    obs, _ = envs.reset(options={"task_ids": list(task_ids)})
    solved = np.zeros(len(task_ids), dtype=np.bool_)
    for _ in range(envs.max_steps):
        obs, _, terminations, _, _ = envs.step(act(obs))
        solved |= terminations  # an episode that is not solved lasts as long as this loop
        if solved.all():
            break
    return solved
