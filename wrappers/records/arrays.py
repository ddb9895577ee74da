"""A group as read-only NumPy arrays, computed once, on which schemes work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["GroupArrays", "StateIndex", "frozen", "number_keys", "split_flat"]


@dataclass(frozen=True, slots=True, eq=False)
class StateIndex:
    """The states of a group, in order of first appearance.

    Attributes:
        keys: V distinct keys.
        state, next_state: int32 (N,), the state before and after each turn.
    """

    keys: tuple[str, ...]
    state: NDArray[np.int32]
    next_state: NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class GroupArrays:
    """A group as arrays: N turns of G trajectories, in order; trajectory i is ``offsets[i]:offsets[i+1]``.

    Attributes:
        states: distinct state keys and their indices (N,).
        actions: distinct action keys.
        action: int32 (N,), index into ``actions``.
        reward, cost: float64 (N,).
        parsed, valid, effective: bool (N,).
        trajectory: int32 (N,), the trajectory of each turn.
        last: bool (N,), whether the turn is the last of its trajectory.
        offsets: int64 (G+1,).
        end: int8 (G,), GOAL, FAILED or TRUNCATED.
        success: bool (G,).
        score, returns: float64 (G,); the return of a branch includes its prefix.
    """

    states: StateIndex
    actions: tuple[str, ...]
    action: NDArray[np.int32]
    reward: NDArray[np.float64]
    cost: NDArray[np.float64]
    parsed: NDArray[np.bool_]
    valid: NDArray[np.bool_]
    effective: NDArray[np.bool_]
    trajectory: NDArray[np.int32]
    last: NDArray[np.bool_]
    offsets: NDArray[np.int64]
    end: NDArray[np.int8]
    success: NDArray[np.bool_]
    score: NDArray[np.float64]
    returns: NDArray[np.float64]

    @property
    def state(self) -> NDArray[np.int32]:
        """int32 (N,), the state before each turn."""
        return self.states.state

    @property
    def next_state(self) -> NDArray[np.int32]:
        """int32 (N,), the state after each turn."""
        return self.states.next_state

    @property
    def size(self) -> int:
        """G, the number of trajectories."""
        return len(self.offsets) - 1

    def split(self, flat: NDArray[Any]) -> list[NDArray[Any]]:
        """Split a flat (N, …) array into G arrays (T_i, …)."""
        return split_flat(flat, self.offsets)


def split_flat(flat: NDArray[Any], offsets: NDArray[np.int64]) -> list[NDArray[Any]]:
    """Split a flat array into views: trajectory i is ``offsets[i]:offsets[i+1]``."""
    return [flat[a:b] for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Make an array read-only: all schemes share one copy, which none may change."""
    array.flags.writeable = False
    return array


def number_keys(before: Sequence[str], after: Sequence[str]) -> StateIndex:
    """Index keys in order of first appearance, turn by turn; ``after`` may be empty."""
    numbers: dict[str, int] = {}
    for i, key in enumerate(before):
        if key not in numbers:
            numbers[key] = len(numbers)
        if after and after[i] not in numbers:
            numbers[after[i]] = len(numbers)
    return StateIndex(
        tuple(numbers),
        frozen(np.array([numbers[key] for key in before], np.int32)),
        frozen(np.array([numbers[key] for key in after], np.int32)),
    )
