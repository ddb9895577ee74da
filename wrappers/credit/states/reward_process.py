"""A group as an empirical Markov reward process, of which GroupTD computes values."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers.records.stop_reasons import FAILED, GOAL, OPEN

__all__ = ["RewardProcess", "mean_by_state"]

Floats = NDArray[np.float64]


class RewardProcess(NamedTuple):
    """The turns of a group as transitions of a Markov reward process: K states, N turns, G trajectories.

    Attributes:
        size: K.
        state, following: int (N,), states before and after each turn.
        trajectory: int (N,), the trajectory of each turn.
        left: int (N,), number of turns left before each turn, including it: H for the first.
        outcome: float64 (G,), R_i.
        goal: bool (N,), turns that ended in success.
        terminal: bool (N,), turns after which nothing follows: their value is their trajectory's outcome at every
            horizon.
        truncated: bool (N,), last turns of truncated trajectories.
        length: int (G,), turns of each trajectory, including the prefix of a branch.
        horizon: H.
    """

    size: int
    state: NDArray[np.int32]
    following: NDArray[np.int32]
    trajectory: NDArray[np.int32]
    left: NDArray[np.int64]
    outcome: Floats
    goal: NDArray[np.bool_]
    terminal: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    length: NDArray[np.int64]
    horizon: int

    def without(self, index: int) -> RewardProcess:
        """Return the process of all trajectories but one."""
        kept = self.trajectory != index
        return self._replace(
            state=self.state[kept],
            following=self.following[kept],
            trajectory=(self.trajectory[kept] - (self.trajectory[kept] > index)).astype(np.int32),
            left=self.left[kept],
            outcome=np.delete(self.outcome, index),
            goal=self.goal[kept],
            terminal=self.terminal[kept],
            truncated=self.truncated[kept],
            length=np.delete(self.length, index),
        )

    def running_mean_outcome(self) -> Floats:
        """float64 (H+1,): mean outcome of the trajectories that are running with h turns left.

        With so few turns left that none is running any more, the mean over the longest trajectories.
        """
        not_empty = self.length > 0
        since = self.horizon + 1 - self.length[not_empty]
        running = np.cumsum(np.bincount(since, minlength=self.horizon + 1))
        total = np.cumsum(np.bincount(since, self.outcome[not_empty], minlength=self.horizon + 1))
        first = since.min(initial=self.horizon)
        mean: Floats = (total / np.maximum(running, 1))[np.maximum(np.arange(self.horizon + 1), first)]
        return mean

    def conflicted(self, action: NDArray[np.int32]) -> NDArray[np.bool_]:
        """bool (K,): states in which one action had two different results.

        Args:
            action: int32 (N,), the action of each turn.
        """
        end = np.where(self.goal, GOAL, np.where(self.terminal & ~self.truncated, FAILED, OPEN))
        result = self.following.astype(np.int64) * 4 + end
        pair = self.state.astype(np.int64) * (int(action.max(initial=0)) + 1) + action
        _, first, label = np.unique(pair, return_index=True, return_inverse=True)
        differs = result != result[first][label]
        conflicted = np.zeros(self.size, np.bool_)
        conflicted[self.state[differs]] = True
        return conflicted


def mean_by_state(state: NDArray[np.int32], x: Floats, size: int) -> Floats:
    """float64 (size,): mean of x by state, 0 for states without a value."""
    mean: Floats = np.bincount(state, x, minlength=size) / np.maximum(np.bincount(state, minlength=size), 1)
    return mean
