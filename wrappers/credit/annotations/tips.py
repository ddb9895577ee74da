"""TIPS: PPO whose turns are paid for making the right answer likelier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers.credit.annotations.actor_critic import CRITIC, MTPPO
from creditflow.wrappers.credit.annotations.values import turn_values
from creditflow.wrappers.credit.base import require_range
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.stop_reasons import TRUNCATED

__all__ = ["TIPS"]


@dataclass(frozen=True, kw_only=True)
class TIPS(MTPPO):
    """R'_t = R_t + w (γ Φ(s_{t+1}) − Φ(s_t)), Φ the log-likelihood of the right answer after the history so far.

    Φ is a potential, so that the best policy stays the best, if what was lent is paid back at the end.

    Attributes:
        shaping_weight: w ≥ 0. The paper's weight is not known to us.
        terminal: Φ after the last turn of an episode that is over: "zero" pays back (the sum over an episode is
            −w Φ(s_0), whatever the way, at γ = 1); "kept" does not, so that a likely answer is paid for in itself;
            "silent" gives the last turn, which only answers, no shaping at all.
    """

    shaping_weight: float = 1.0
    terminal: Literal["zero", "kept", "silent"] = "zero"

    name = "tips"
    source = "TIPS (arXiv 2603.22293), from its abstract: its discount, weight and normalisation are our choice"
    requires: ClassVar[tuple[str, ...]] = ("logp.answer", CRITIC)
    properties = frozenset({"branches", "permutation", "telescoping"})

    def __post_init__(self) -> None:
        """Check every parameter."""
        super().__post_init__()
        require_range(self, "shaping_weight", 0.0, np.inf)

    @property
    def checked_properties(self) -> frozenset[str]:
        """Sums telescope only without discount."""
        return super().checked_properties - (frozenset() if self.discount == 1.0 else {"telescoping"})

    def shaping(self, group: Group) -> NDArray[np.float64]:
        """float64 (N,): what is added to the reward of each turn."""
        before = turn_values(group, "logp.answer", scheme=self.name)
        after = turn_values(group, "logp.answer.next", scheme=self.name)
        over = group.arrays.last & (group.arrays.end[group.arrays.trajectory] != TRUNCATED)
        if self.terminal == "zero":
            after = np.where(over, 0.0, after)
        out = self.shaping_weight * (self.discount * after - before)
        return np.where(over, 0.0, out) if self.terminal == "silent" else out
