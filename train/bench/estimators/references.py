"""Published estimators that are no scheme of ours, as references to compare with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers.credit.base import Credit, Scheme
from creditflow.wrappers.records.arrays import split_flat
from creditflow.wrappers.records.group import Group

__all__ = ["ReinforcePlusPlus"]


@dataclass(frozen=True, kw_only=True)
class ReinforcePlusPlus(Scheme):
    """REINFORCE++: returns-to-go of tokens, whitened over all tokens of the batch; without KL, discount 1.

    Attributes:
        baseline: "group" subtracts the group's mean return and gives every token of a trajectory its outcome, as REINFORCE++-baseline.
    """

    name: ClassVar[str] = "reinforce_plus_plus"
    source: ClassVar[str] = "Hu et al. 2025 (REINFORCE++, arXiv 2501.03262)"
    baseline: Literal["none", "group"] = "none"

    def assign(self, group: Group) -> Credit:
        """Score one group as a batch of its own."""
        return self.assign_batch([group])[0]

    def assign_batch(self, groups: Sequence[Group]) -> list[Credit]:
        """Score a batch, which is whitened as a whole; equal values give 0."""
        raw = np.concatenate([self._returns(group) for group in groups])
        tokens = np.concatenate([np.maximum(group.token_counts, 1) for group in groups])
        mean = np.average(raw, weights=tokens)
        # sample variance over tokens
        variance = float(tokens @ (raw - mean) ** 2) / max(int(tokens.sum()) - 1, 1)
        white = (raw - mean) / np.sqrt(variance) if variance > 0.0 else np.zeros_like(raw)
        parts = np.split(white, np.cumsum([len(group.arrays.reward) for group in groups])[:-1])
        return [Credit.of(g, outcome=np.zeros(g.arrays.size), step=part) for g, part in zip(groups, parts, strict=True)]

    def _returns(self, group: Group) -> NDArray[np.float64]:
        arrays = group.arrays
        if self.baseline == "group":
            centered: NDArray[np.float64] = (arrays.returns - arrays.returns.mean())[arrays.trajectory]
            return centered
        # the reward of a turn stands at its last token, so all its tokens have one return-to-go
        return np.concatenate([np.cumsum(part[::-1])[::-1] for part in split_flat(arrays.reward, arrays.offsets)])
