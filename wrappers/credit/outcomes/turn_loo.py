"""Turn-LOO: the return to go of a turn against the other rollouts that have a turn of the same number."""

from __future__ import annotations

from dataclasses import dataclass

from creditflow.wrappers.credit.base import Credit, Scheme
from creditflow.wrappers.credit.registry import register
from creditflow.wrappers.credit.to_go import against_others, full_rewards, returns_to_go
from creditflow.wrappers.records.group import Group

__all__ = ["TurnLOO"]


@register
@dataclass(frozen=True, kw_only=True)
class TurnLOO(Scheme):
    """A_it = G_it − mean of G_jt over the other rollouts j that have a turn t, with G_it = Σ_{k ≥ t} γ^(k − t) r_ik.

    A turn that no other rollout reaches keeps its return. The baseline does not depend on the rollout's own actions, so with
    γ = 1 the expected gradient is the true one, also where the policy decides when to stop.

    Attributes:
        discount: γ in [0, 1].
    """

    name = "turn_loo"
    source = "Ahmadian et al. 2024 (Back to Basics, arXiv 2402.14740) eq. 5, applied to the return to go of each turn"
    credit_needs = "unequal outcomes"
    verification = "values worked out by hand, and the expected gradient of chains by enumeration"
    limitations = (
        "Where few rollouts are left, the baseline is noisy, and the last rollout left has none. Rewards of another scale need "
        "another learning rate."
    )
    properties = frozenset({"all_fail_zero", "homogeneous", "one_member_zero", "permutation", "ties_zero"})
    ranges = {"discount": "[0, 1]"}

    discount: float = 1.0

    def assign(self, group: Group) -> Credit:
        """Score one group."""
        returns = returns_to_go(group, full_rewards(group), self.discount)
        stored = group.episode_index.own
        return Credit.of(
            group,
            step={"return to go, against the others at this turn": against_others(group, returns)[stored]},
            rewards=returns[stored],
        )
