"""GiGPO: outcome advantage plus each action's discounted return relative to others in the same state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers.canonical.similarity import greedy_similarity
from creditflow.wrappers.credit.base import Credit
from creditflow.wrappers.credit.normalize import Scale, normalize
from creditflow.wrappers.credit.outcome import RELEASE_OUTCOME, ReleasedOutcomeScheme
from creditflow.wrappers.credit.registry import register
from creditflow.wrappers.credit.states.keys import MergingScheme
from creditflow.wrappers.records.group import Group, backward_sums

__all__ = ["GiGPO", "discounted_returns"]


@register
@dataclass(frozen=True, kw_only=True)
class GiGPO(MergingScheme, ReleasedOutcomeScheme):
    """A_it = A_i^E + ω A_it^S with A_it^S = (R_it − mean) / F_norm over all turns of the group at the same state.

    R_it = Σ_k≥t γ^(k−t) r_ik (eqs. 5 to 9). A state visited once gives 0.

    Attributes:
        discount: γ.
        step_weight: ω.
        outcome_scale: "std" divides the outcome by its standard deviation, "none" does not.
        step_scale: F_norm: "std", or "none" for 1. The paper uses both.
        similarity: 0 compares turns with equal keys. A value in (0, 1) clusters the keys greedily at that difflib
            ratio, as released. The result then depends on the order of trajectories.
    """

    name = "gigpo"
    source = "Feng et al. 2025 (GiGPO, arXiv 2505.10978) eqs. 3 to 9. Released code: verl-agent"
    credit_needs = "repeated states"
    verification = "the paper, and numbers computed by the released code (release preset)"
    limitations = (
        "A turn in a state that the group visits only once gets the outcome advantage alone, so with keys that never "
        "repeat the scheme is grpo. Returns after one visit have a high variance, and most states have few visits."
    )
    presets = {
        "paper": {},
        "release": {**RELEASE_OUTCOME, "key": "text", "outcome_scale": "none", "step_scale": "none"},
    }
    properties = frozenset({"all_fail_zero", "branches", "one_member_zero", "permutation", "scale", "ties_zero"})
    ranges = {"discount": "[0, 1]", "similarity": "[0, 1)"}

    discount: float = 0.95
    step_weight: float = 1.0
    outcome_scale: Scale = "std"
    step_scale: Scale = "std"
    similarity: float = 0.0

    def assign(self, group: Group) -> Credit:
        """Score one group."""
        outcome, turn_part = self.outcome_part(group, scale=self.outcome_scale)
        states = self.states(group)
        labels = states.state
        if self.similarity:
            labels = greedy_similarity(states.keys, labels.tolist(), self.similarity)[labels]
        returns = discounted_returns(group, group.arrays.reward, self.discount)
        penalties = self.penalties(group)
        compared = normalize(
            returns - penalties,
            labels,
            len(states.keys),
            scale=self.step_scale,
            std_eps=self.std_eps,
            magnitude=discounted_returns(group, np.abs(group.arrays.reward), self.discount) + penalties,
            quantity="discounted return",
        )
        return Credit.of(
            group,
            outcome=outcome,
            step={
                "outcome, changed by the turn's own penalty": turn_part,
                "return in the state": self.step_weight * compared,
            },
            rewards=returns,
            diagnostics={"state_group": labels, "step_advantage": compared},
        )


def discounted_returns(group: Group, rewards: NDArray[np.float64], discount: float) -> NDArray[np.float64]:
    """float64 (N,): R_it = Σ_k≥t γ^(k−t) r_ik, for any reward per turn (N,)."""
    return backward_sums(rewards, group.arrays.offsets, discount)
