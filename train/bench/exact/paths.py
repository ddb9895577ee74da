"""Sampling from transition tables: rollouts of many policies at once as arrays of states and actions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Paths", "sample_paths"]


class Paths(NamedTuple):
    """Sampled rollouts, one per column ("lane"): lane p · W + w is policy p with the w-th random numbers.

    Attributes:
        states: int32 (H+1, P · W), the state before each turn and after the last one; later entries are unspecified.
        actions: int32 (H, P · W), likewise.
        lengths: int64 (P · W,), number of turns.
    """

    states: NDArray[np.int32]
    actions: NDArray[np.int32]
    lengths: NDArray[np.int64]


def sample_paths(
    next_states: NDArray[np.int32],
    transition_probs: NDArray[np.float64],
    policies: NDArray[np.float64],
    start: NDArray[np.integer[Any]],
    horizon: int,
    rng: np.random.Generator,
) -> Paths:
    """Sample rollouts of every policy with common random numbers.

    Common random numbers reduce the variance of differences between policies, and between the schemes that produced them.

    Args:
        next_states, transition_probs: (S, A, K), as in ``FiniteMDP``; states from S on are terminal.
        policies: float64 (P, S, A).
        start: int (W,), initial states.
        horizon: H.
        rng: source of randomness; how much is drawn from it does not depend on the policies.
    """
    count, size, width = len(policies), len(next_states), len(start)
    cumulative = np.cumsum(policies, axis=2)[:, :, :-1].reshape(count * size, -1)
    branches = None if next_states.shape[2] == 1 else np.cumsum(transition_probs, axis=2)[:, :, :-1]
    draws = rng.random((horizon, 1 if branches is None else 2, width))
    state = np.tile(start, count).astype(np.int32)
    lanes = len(state)
    states, actions = np.empty((horizon + 1, lanes), np.int32), np.empty((horizon, lanes), np.int32)
    lengths = np.full(lanes, horizon, np.int64)
    running = np.arange(lanes)
    states[0] = state
    for t in range(horizon):
        now = state[running]
        draw = draws[t][:, running % width]
        action = (cumulative[running // width * size + now] <= draw[0][:, None]).sum(axis=1)
        branch = 0 if branches is None else (branches[now, action] <= draw[1][:, None]).sum(axis=1)
        after = next_states[now, action, branch]
        state[running] = after
        actions[t, running] = action
        states[t + 1] = state
        terminated = after >= size
        if terminated.any():
            lengths[running[terminated]] = t + 1
            running = running[~terminated]
            if not len(running):
                break
    return Paths(states, actions, lengths)
