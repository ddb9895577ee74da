"""A group as NumPy arrays: what schemes compute on, made once a group and read-only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["GroupArrays", "StateIndex", "frozen", "number_keys"]


@dataclass(frozen=True, slots=True, eq=False)
class StateIndex:
    """The states of a group, numbered in order of first appearance.

    Attributes:
        keys: V distinct keys.
        state, next_state: int32 (N,), the state before and after each turn.
    """

    keys: tuple[str, ...]
    state: NDArray[np.int32]
    next_state: NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class GroupArrays:
    """A group as arrays. N turns of G trajectories, in order; trajectory i owns ``offsets[i]:offsets[i+1]``.

    Attributes:
        states: keys and their numbers (N,).
        actions: A distinct action keys.
        action: int32 (N,).
        reward, cost: float64 (N,).
        parsed, valid, effective: bool (N,).
        trajectory: int32 (N,), the owner of each turn.
        last: bool (N,), the last turn of its trajectory.
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
        """int32 (N,), state before each turn."""
        return self.states.state

    @property
    def next_state(self) -> NDArray[np.int32]:
        """int32 (N,), state after each turn."""
        return self.states.next_state

    @property
    def size(self) -> int:
        """G, the number of trajectories."""
        return len(self.offsets) - 1

    def split(self, flat: NDArray[Any]) -> list[NDArray[Any]]:
        """A flat (N, …) array as G arrays (T_i, …), views."""
        return [flat[a:b] for a, b in zip(self.offsets[:-1].tolist(), self.offsets[1:].tolist(), strict=True)]


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Read-only: all schemes share one copy, none may change it for the others."""
    array.flags.writeable = False
    return array


def number_keys(before: Sequence[str], after: Sequence[str]) -> StateIndex:
    """Number keys in order of first appearance, turn by turn; ``after`` may be empty."""
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
