"""Which states count as equal, for all schemes that compare turns in one state or build the state graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.records.group import Group, StateIndex

__all__ = ["MergingScheme", "StateScheme", "of_nodes", "without_contrast"]


def of_nodes(keys: Sequence[str], **numbers: NDArray[Any]) -> dict[str, Any]:
    """Diagnostics with an entry for each state: their arrays, the keys of the states, and which arrays these are."""
    return {"node_keys": keys, "node_numbers": tuple(numbers), **numbers}


def without_contrast(group: Group, states: StateIndex, outcome: NDArray[np.float64]) -> bool:
    """Whether two or more rollouts went through the same states to the same end: nothing in them says which turn was better.

    Args:
        group: the group.
        states: its states.
        outcome: float64 (G,), of each rollout.
    """
    episodes = group.episode_index
    lengths = np.diff(episodes.offsets)
    if group.arrays.size < 2 or (lengths != lengths[0]).any() or (outcome != outcome[0]).any():
        return False
    ends = {member.end for member in group.trajectories}
    paths = [column[episodes.stored].reshape(len(lengths), -1) for column in (states.state, states.next_state)]
    return len(ends) == 1 and all(bool((path == path[0]).all()) for path in paths)


@dataclass(frozen=True, kw_only=True)
class StateScheme(Scheme):
    """A scheme that compares turns in one state.

    Attributes:
        key: key by which states are compared: the environment's "state" key or the "text" key.
    """

    key: Literal["state", "text"] = "state"

    def states(self, group: Group) -> StateIndex:
        """The group's states by ``key``."""
        return group.states(self.key)


@dataclass(frozen=True, kw_only=True)
class MergingScheme(StateScheme):
    """A scheme whose states a text encoder can merge before it scores them: ``make(…, merge="hf:MODEL")``.

    Attributes:
        merge_threshold: minimum cosine similarity of a state to the state that represents it, in (0, 1]. Papers merge at
            0.9 (RewardFlow, search) and 0.95 (GraphGPO, advertisements).
        merge_text: text that is compared: the text "key" itself, or the "observation" where keys are digests.
    """

    ranges = {"merge_threshold": "(0, 1]"}

    merge_threshold: float = 0.9
    merge_text: Literal["key", "observation"] = "key"
