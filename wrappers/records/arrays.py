"""A group as read-only NumPy arrays, computed once, on which schemes work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "GroupArrays",
    "StateIndex",
    "distinct",
    "frozen",
    "number_codes",
    "number_keys",
    "number_paths",
    "run_starts",
    "split_flat",
]


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


def number_keys(keys: Sequence[str]) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """Distinct keys in order of first appearance, and int32 (N,), the index of each key among them."""
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return tuple(numbers), np.fromiter(map(numbers.__getitem__, keys), np.int32, len(keys))


def number_paths(keys: Sequence[str], lengths: NDArray[np.int64]) -> StateIndex:
    """Index the states of trajectories.

    Args:
        keys: state keys of every trajectory that has turns, one trajectory after another: before each turn, and after the
            last one.
        lengths: int64 (G,), number of turns of each trajectory.
    """
    distinct_keys, number = number_keys(keys)
    earlier_ends = np.cumsum(lengths > 0) - 1  # ends of trajectories among the keys before the turns of each
    before = np.arange(int(lengths.sum())) + np.repeat(earlier_ends, lengths)
    return StateIndex(distinct_keys, frozen(number[before]), frozen(number[before + 1]))


def distinct(codes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Distinct codes, ascending, and the count of each, by one sort (much faster than ``np.unique`` for a few hundred codes).

    >>> distinct(np.array([7, 3, 7]))
    (array([3, 7]), array([1, 2]))

    Args:
        codes: int64 (N,).
    """
    ordered = np.sort(codes)
    first = run_starts(ordered)
    return ordered[first], run_lengths(first, len(codes))


def number_codes(codes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Distinct codes, ascending, and int64 (N,), the index of each code among them.

    >>> number_codes(np.array([7, 3, 7]))
    (array([3, 7]), array([1, 0, 1]))

    Args:
        codes: int64 (N,).
    """
    order = np.argsort(codes)
    ordered = codes[order]
    first = run_starts(ordered)
    numbers = np.empty(len(codes), np.int64)
    numbers[order] = np.repeat(np.arange(len(first)), run_lengths(first, len(codes)))
    return ordered[first], numbers


def run_starts(ordered: NDArray[np.int64]) -> NDArray[np.int64]:
    """Index of the first of each run of equal codes.

    >>> run_starts(np.array([3, 3, 7]))
    array([0, 2])

    Args:
        ordered: int64 (N,), equal codes side by side.
    """
    new = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return new.nonzero()[0]


def run_lengths(first: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """Length of each run, from the index of its first entry and the number of all entries."""
    lengths = np.empty(len(first), np.int64)
    np.subtract(first[1:], first[:-1], out=lengths[:-1])
    lengths[-1:] = total - first[-1:]
    return lengths
