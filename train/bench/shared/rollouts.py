"""Rollouts of many policies on many tasks at once, all from the same random numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.exact.simulate import ArrayGroup
from creditflow.train.bench.shared.stack import StackedTasks

__all__ = ["sample_groups"]

Floats = NDArray[np.float64]


def sample_groups(
    tasks: StackedTasks, policies: Floats, size: int, rng: np.random.Generator, *, name: str = "g", fresh: bool = False
) -> list[list[ArrayGroup]]:
    """One group of ``size`` rollouts for each policy and task.

    Rollout i of a task has the same random numbers under every policy.

    Args:
        tasks: the tasks of the batch.
        policies: float64 (M, S, A), over the stacked states.
        size: G.
        rng: generator; how much is drawn from it does not depend on the policies.
        name: beginning of the group ids, distinct for every call of a run.
        fresh: whether state keys never repeat.

    Returns:
        By policy, then by task.
    """
    count, n = len(policies), len(tasks.mdps)
    horizon, width = tasks.horizon, n * size  # lanes of one policy: by task, then by rollout
    cumulative = np.cumsum(policies, axis=2)[:, :, :-1].reshape(-1, policies.shape[2] - 1)
    branches = None if tasks.deterministic else np.cumsum(tasks.transition_probs, axis=2)[:, :, :-1]
    draws = rng.random((horizon, 1 if branches is None else 2, width))
    state = np.tile(np.repeat(tasks.start, size), count)
    states, actions = np.empty((horizon + 1, len(state)), np.int32), np.empty((horizon, len(state)), np.int32)
    lengths = np.full(len(state), horizon, np.int64)
    running = np.arange(len(state))
    states[0] = state
    for t in range(horizon):
        now = state[running]
        draw = draws[t][:, running % width]
        action = (cumulative[running // width * tasks.size + now] <= draw[0][:, None]).sum(axis=1)
        branch = 0 if branches is None else (branches[now, action] <= draw[1][:, None]).sum(axis=1)
        after = tasks.next_states[now, action, branch]
        state[running] = after
        actions[t, running] = action
        states[t + 1] = state
        terminated = after >= tasks.size
        if terminated.any():
            lengths[running[terminated]] = t + 1
            running = running[~terminated]
            if not len(running):
                break
    groups = list[list[ArrayGroup]]()
    for p in range(count):
        lanes = [slice(p * width + i * size, p * width + (i + 1) * size) for i in range(n)]
        groups.append(
            [_group(tasks, i, states, actions, lengths, lane, f"{name}/{i}", fresh) for i, lane in enumerate(lanes)]
        )
    return groups


def _group(
    tasks: StackedTasks,
    task: int,
    states: NDArray[np.int32],
    actions: NDArray[np.int32],
    lengths: NDArray[np.int64],
    lane: slice,
    name: str,
    fresh: bool,
) -> ArrayGroup:
    length = lengths[lane]
    longest = int(length.max())
    taken = np.arange(longest) < length[:, None]
    before, after = (
        tasks.own_states(task, part[:, lane].T[taken]) for part in (states[:longest], states[1 : longest + 1])
    )
    return ArrayGroup(tasks.mdps[task], before, after, actions[:longest, lane].T[taken], length, name, fresh=fresh)
