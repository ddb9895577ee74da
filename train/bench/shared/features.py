"""Feature maps: what the shared policy sees of a state.

A task describes each of its states by parts, such as the direction of the goal and the contents of the four neighbouring
cells. A map turns parts into features. ``local``: all parts together are one feature, so states with equal parts, in any task,
share their parameters. ``additive``: every part is a feature of its own, so states with one equal part share some parameters.
``table``: every state of every task is its own feature; nothing is shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import unknown_name_error

__all__ = ["MAPS", "Features", "FeaturesOf", "make_features"]

MAPS: Final = ("local", "additive", "table")
Parts = NDArray[np.int64]


class FeaturesOf(NamedTuple):
    """The features of some tasks, one task after the other.

    Attributes:
        indices: int64 (S, K), the K features of each state.
        lengths: number of states of each task.
    """

    indices: NDArray[np.int64]
    lengths: list[int]


class Features:
    """The features of every state of every task.

    Args:
        indices: int64 (S_i, K) of each task: the features of each of its acting states, all of weight 1.
        size: F, the number of features.

    Attributes:
        size: as given; the index ``size`` marks states without features, where the policy is always uniform.
    """

    def __init__(self, indices: Sequence[NDArray[np.int64]], size: int) -> None:
        self.size = size
        self._indices = list(indices)
        self._last: tuple[tuple[int, ...], FeaturesOf] | None = None

    def of(self, tasks: Sequence[int]) -> FeaturesOf:
        """The features of some tasks; those of the last call are cached, because many policies have the same tasks."""
        wanted = tuple(tasks)
        if self._last is None or self._last[0] != wanted:
            parts = [self._indices[i] for i in wanted]
            self._last = wanted, FeaturesOf(np.concatenate(parts), [len(part) for part in parts])
        return self._last[1]


def make_features(name: str, parts: Sequence[Parts]) -> Features:
    """Make the features of all tasks by the name of a feature map.

    Args:
        name: one of ``MAPS``.
        parts: int64 (S_i, K) of each task, each part ≥ 0; a negative first part marks a state without features.

    Raises:
        ConfigError: the name is unknown.
    """
    if name not in MAPS:
        raise unknown_name_error("feature map", name, MAPS)
    together = np.concatenate(parts)
    seen = together[:, 0] >= 0
    if name == "additive":
        sizes = together[seen].max(axis=0) + 1
        found = together[seen] + np.cumsum([0, *sizes[:-1]])
        size = int(sizes.sum())
    elif name == "local":
        classes, inverse = np.unique(together[seen], axis=0, return_inverse=True)
        found, size = inverse.reshape(-1, 1), len(classes)
    else:
        size = int(seen.sum())
        found = np.arange(size)[:, None]
    indices = np.full((len(together), found.shape[1]), size)
    indices[seen] = found
    return Features(np.split(indices, np.cumsum([len(part) for part in parts])[:-1]), size)
