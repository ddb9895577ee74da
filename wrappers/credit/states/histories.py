"""Turns by the states that led to them: nested groups of equal recent histories."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

__all__ = ["history_groups"]


def history_groups(
    state: NDArray[np.integer], offsets: NDArray[np.int64], length: int
) -> Iterator[tuple[NDArray[np.int32], int]]:
    """For k = 0 … length, number the turns by their last k + 1 states; linear in turns, but for the sorting.

    A history begins with its episode: a turn with fewer than k + 1 states so far is in one group with turns whose episode
    began with the same states, and never with later turns of another. Hence each level refines the one before it.

    >>> for groups, size in history_groups(np.array([0, 1, 0, 1, 0, 1]), np.array([0, 2, 6]), 2):
    ...     print(groups, size)
    [0 1 0 1 0 1] 2
    [0 1 0 1 2 1] 3
    [0 1 0 1 2 3] 4

    Args:
        state: int (M,), the state of each turn, one episode after the other.
        offsets: int64 (G+1,); episode i is ``offsets[i]:offsets[i+1]``.
        length: K ≥ 0, number of states before the present one.

    Yields:
        int32 (M,), the group of each turn, and the number of groups.
    """
    first = np.zeros(len(state), np.bool_)
    first[offsets[:-1][np.diff(offsets) > 0]] = True
    labels, size = _numbered(state.astype(np.int64))
    present, n_states = labels, size
    yield labels, size
    for _ in range(length):
        before = np.zeros(len(labels), np.int64)  # 0: the episode begins here
        before[1:] = labels[:-1] + 1
        before[first] = 0
        labels, size = _numbered(before * n_states + present)
        yield labels, size


def _numbered(x: NDArray[np.int64]) -> tuple[NDArray[np.int32], int]:
    values, inverse = np.unique(x, return_inverse=True)
    return inverse.astype(np.int32), len(values)
