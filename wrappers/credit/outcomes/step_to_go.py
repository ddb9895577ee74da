"""Step-to-go: the user's own reward of every turn, as a discounted return to go, centred over the group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from creditflow.wrappers.credit.base import Credit, Scheme
from creditflow.wrappers.credit.registry import register
from creditflow.wrappers.credit.to_go import centred, full_rewards, returns_to_go
from creditflow.wrappers.records.group import Group

__all__ = ["StepToGo"]


@register
@dataclass(frozen=True, kw_only=True)
class StepToGo(Scheme):
    """A_it = G_it − mean G with G_it = Σ_{k ≥ t} γ^(k − t) r_ik, from the rewards r of the turns.

    The mean is over all turns of the group, or over the turns of number t. It includes the rollout's own return, which takes a
    part of the credit back: centred by number, the share 1/n of a turn that n rollouts reach, and all of it where no other
    rollout does. ``turn_loo`` has no such loss.

    Attributes:
        discount: γ in [0, 1].
        centre_over: "group" (all turns), or "turn" (turns of the same number).
    """

    name = "step_to_go"
    source = "Sutton and Barto 2018, section 13.4 (REINFORCE with baseline), with the group's mean as baseline"
    credit_needs = "unequal outcomes"
    verification = "values worked out by hand, and the expected gradient of chains by enumeration"
    limitations = (
        "Rewards of another scale need another learning rate. With centre_over='turn' late turns, which few rollouts reach, "
        "get too little credit, and the last rollout left gets none."
    )
    properties = frozenset({"all_fail_zero", "homogeneous", "one_member_zero", "permutation"})
    ranges = {"discount": "[0, 1]"}

    discount: float = 1.0
    centre_over: Literal["group", "turn"] = "group"

    def assign(self, group: Group) -> Credit:
        """Score one group."""
        returns = returns_to_go(group, full_rewards(group), self.discount)
        labels = group.episode_index.number if self.centre_over == "turn" else np.zeros(len(returns), np.int64)
        step = centred(group, returns, labels)
        stored = group.episode_index.own
        return Credit.of(group, step={"return to go, centred": step[stored]}, rewards=returns[stored])
