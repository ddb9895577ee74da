"""What makes two states equal, for every scheme that compares turns at one state or builds the state graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError
from creditflow.wrappers.canonical.embedding import HashingEmbedder
from creditflow.wrappers.canonical.merge import merged_states, similar_states
from creditflow.wrappers.credit.base import require_range
from creditflow.wrappers.credit.outcome import OutcomeScheme
from creditflow.wrappers.records.arrays import StateIndex
from creditflow.wrappers.records.group import Group

__all__ = ["StateScheme"]


@dataclass(frozen=True, kw_only=True)
class StateScheme(OutcomeScheme):
    """Parameters of states.

    Attributes:
        key: what makes two states equal: the environment's "state" key or the "text" a method saw.
        merge: ours: "hash" makes one state of text states whose n-grams are similar (``HashingEmbedder``), in the graph
            and in the comparison groups alike, whatever the order of rollouts. Merging by a model is done to the log
            beforehand: ``creditflow merge --by hf:PATH@0.9``.
        merge_threshold: least similarity (cosine) of a state to the one that represents it, in (0, 1]. Papers merge at
            0.9 (RewardFlow, search) and 0.95 (GraphGPO, advertisements), by a model's embeddings.
        merge_text: what is compared: the text "key" itself, or the "observation" where keys are digests.
    """

    key: Literal["state", "text"] = "state"
    merge: Literal["none", "hash"] = "none"
    merge_threshold: float = 0.9
    merge_text: Literal["key", "observation"] = "key"

    def __post_init__(self) -> None:
        """Check every parameter."""
        super().__post_init__()
        require_range(self, "merge_threshold", 0.0, 1.0, above=True)
        if self.merge != "none" and self.key != "text":
            raise ConfigError(f"{self.name}: merge={self.merge!r} compares texts; use key='text' with it")

    def leaders(self, group: Group, ended: NDArray[np.bool_] | None = None) -> NDArray[np.int32] | None:
        """int32 (K,): the key that represents each of the group's keys; None if nothing is merged.

        Args:
            group: the rollouts.
            ended: bool (N,), turns after which there is a typed end; default the last turns of successes and failures.
        """
        if self.merge == "none":
            return None
        found = similar_states(group, HashingEmbedder(), self.merge_threshold, source=self.merge_text, ended=ended)
        return found.leader

    def states(self, group: Group, leaders: NDArray[np.int32] | None) -> StateIndex:
        """The group's states under ``key``, merged."""
        states = group.states(self.key)
        return states if leaders is None else merged_states(states, leaders)
