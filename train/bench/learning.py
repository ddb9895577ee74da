"""Learn with a softmax table under each scheme: same tasks, same seeds, same KL per update, same number of rollouts.

Success is that of the sampled rollouts before each update, on the very tasks that are learned: a table over states
cannot generalise, so nothing here is held out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.tabular import TabularAgent
from creditflow.envs.tasks import Task
from creditflow.train.bench.suites import Preset, Suite
from creditflow.train.rollout import play_groups
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.group_env import GroupEnv

__all__ = ["Curve", "learn"]


@dataclass(frozen=True, slots=True)
class Curve:
    """One run of learning.

    Attributes:
        scheme: name.
        seed: of the rollouts.
        success: float64 (iterations + 1, tasks), mean success of the group before each update, and at the end.
        turns: environment turns used.
    """

    scheme: str
    seed: int
    success: NDArray[np.float64]
    turns: int


def learn(name: str, scheme: Scheme, suite: Suite, preset: Preset, *, seed: int, kl: float = 0.01) -> Curve:
    """Run one curve.

    Args:
        name, scheme: whose advantages are used.
        suite, preset: tasks and amounts.
        seed: of the rollouts; equal seeds give every scheme the same first iteration.
        kl: divergence of each update, in nats per visited turn.
    """
    env = GroupEnv(suite.env, size=preset.group_size, texts=bool(scheme.texts), **suite.settings)
    # tasks share no state, so one agent per task keeps each task's step size its own
    agents = [TabularAgent(guidance=suite.guidance, step_size=kl) for _ in suite.tasks]
    success = np.empty((preset.iterations + 1, len(suite.tasks)))
    turns = 0
    for iteration in range(preset.iterations + 1):
        for column, (task, agent) in enumerate(zip(suite.tasks, agents, strict=True)):
            group = next(play_groups(env, agent, _one(task), seed=seed, iteration=iteration))
            success[iteration, column] = np.mean([member.success for member in group.trajectories])
            if iteration < preset.iterations:
                turns += len(group.turns)
                agent.update([group], scheme.assign_batch([group]))
    return Curve(name, seed, success, turns)


def _one(task: Task) -> Sequence[Task]:
    return (task,)
