"""Rollouts of many policies on many tasks at once, with common random numbers."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.exact.paths import sample_paths
from creditflow.train.bench.exact.simulate import ArrayGroup, group_of
from creditflow.train.bench.shared.stack import StackedTasks

__all__ = ["sample_groups"]


def sample_groups(
    tasks: StackedTasks,
    policies: NDArray[np.float64],
    size: int,
    rng: np.random.Generator,
    *,
    name: str = "g",
    fresh: bool = False,
) -> list[list[ArrayGroup]]:
    """Sample one group of ``size`` rollouts for each policy and task.

    Rollout i of a task has the same random numbers under every policy.

    Args:
        tasks: the tasks of the batch.
        policies: float64 (M, S, A), over the stacked states.
        size: G.
        rng: source of randomness; how much is drawn from it does not depend on the policies.
        name: prefix of the group ids, distinct for every call of a run.
        fresh: whether every visit of a state has a new key.

    Returns:
        The groups by policy, then by task.
    """
    paths = sample_paths(
        tasks.next_states, tasks.transition_probs, policies, np.repeat(tasks.start, size), tasks.horizon, rng
    )
    count, groups = len(tasks.mdps), list[list[ArrayGroup]]()
    for p in range(len(policies)):
        lanes = [slice((p * count + i) * size, (p * count + i + 1) * size) for i in range(count)]
        groups.append(
            [
                group_of(
                    paths, own, tasks.mdps[i], name=f"{name}/{i}", fresh=fresh, numbers=partial(tasks.own_states, i)
                )
                for i, own in enumerate(lanes)
            ]
        )
    return groups
