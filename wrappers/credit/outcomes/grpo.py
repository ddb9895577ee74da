"""GRPO: the outcome relative to the mean of the group, in standard deviations."""

from __future__ import annotations

from dataclasses import dataclass

from creditflow.wrappers.credit.base import Credit
from creditflow.wrappers.credit.normalize import Scale
from creditflow.wrappers.credit.outcome import RELEASE_OUTCOME, ReleasedOutcomeScheme
from creditflow.wrappers.credit.registry import register
from creditflow.wrappers.records.group import Group

__all__ = ["GRPO"]


@register
@dataclass(frozen=True, kw_only=True)
class GRPO(ReleasedOutcomeScheme):
    """A_i = (R_i − mean R) / std R over the group, with the same number on every turn.

    Attributes:
        outcome_scale: "std" divides by the standard deviation, "none" does not (Dr. GRPO).
    """

    name = "grpo"
    source = "Shao et al. 2024 (DeepSeekMath, arXiv 2402.03300) eq. 3. Released code: verl-agent"
    credit_needs = "unequal outcomes"
    verification = "the paper, and numbers computed by the released code (release preset)"
    limitations = "All turns of a trajectory get the same credit, so a good action in a failed episode is penalised."
    presets = {"paper": {}, "release": RELEASE_OUTCOME}
    properties = frozenset(
        {"all_fail_zero", "branches", "one_member_zero", "permutation", "scale", "shift", "stopping_time", "ties_zero"}
    )

    outcome_scale: Scale = "std"

    def assign(self, group: Group) -> Credit:
        """Score one group."""
        outcome, turn_part = self.outcome_part(group, scale=self.outcome_scale)
        return Credit.of(
            group,
            outcome=outcome,
            step={"outcome, changed by the turn's own penalty": turn_part},
            aggregation="trajectory_mean" if self.stats_over == "trajectories" else "token_mean",
        )
