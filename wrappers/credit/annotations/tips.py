"""TIPS: PPO with potential-based shaping by the log-likelihood of the reference answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers.credit.annotations.actor_critic import CRITIC, MTPPO
from creditflow.wrappers.credit.annotations.values import turn_values
from creditflow.wrappers.credit.base import require_range
from creditflow.wrappers.credit.registry import register
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.stop_reasons import TRUNCATED

__all__ = ["TIPS"]


@register
@dataclass(frozen=True, kw_only=True)
class TIPS(MTPPO):
    """R'_t = R_t + w (γ Φ(s_{t+1}) − Φ(s_t)), Φ the log-likelihood of the reference answer given the history.

    Φ is a potential, so optimal policies stay optimal if Φ of terminal states is zero.

    Attributes:
        shaping_weight: w ≥ 0. The paper's weight is not known to us.
        terminal: Φ after the last turn of a terminated episode: "zero" (at γ = 1 the sum over an episode is −w Φ(s_0)
            on every path), "kept" (its likelihood, so that likely answers are rewarded as such), or "silent" (the last
            turn, which only answers, gets no shaping).
    """

    shaping_weight: float = 1.0
    terminal: Literal["zero", "kept", "silent"] = "zero"

    name = "tips"
    source = "TIPS (arXiv 2603.22293), the abstract. Discount, weight and normalisation are our choice"
    second_hand = True
    verification = "the abstract (discount, weight and normalisation are ours)"
    limitations = (
        "The likelihood of the answer is not 0 in terminal states, so the optimal policy may change. It needs a "
        "reference answer, a language model and a critic."
    )
    requires: ClassVar[tuple[str, ...]] = ("logp.answer", CRITIC)
    properties = frozenset({"branches", "permutation", "telescoping"})

    def __post_init__(self) -> None:
        """Check every parameter."""
        super().__post_init__()
        require_range(self, "shaping_weight", 0.0, np.inf)

    @property
    def checked_properties(self) -> frozenset[str]:
        """Declared properties. With a discount the shaping does not telescope."""
        return super().checked_properties - (frozenset() if self.discount == 1.0 else {"telescoping"})

    def shaping(self, group: Group) -> NDArray[np.float64]:
        """float64 (N,): shaping added to the reward of each turn."""
        before = turn_values(group, "logp.answer", scheme=self.name)
        after = turn_values(group, "logp.answer.next", scheme=self.name)
        terminated = group.arrays.last & (group.arrays.end[group.arrays.trajectory] != TRUNCATED)
        if self.terminal == "zero":
            after = np.where(terminated, 0.0, after)
        out = self.shaping_weight * (self.discount * after - before)
        return np.where(terminated, 0.0, out) if self.terminal == "silent" else out
