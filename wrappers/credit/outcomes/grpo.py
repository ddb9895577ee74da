"""GRPO: the outcome relative to the mean of the group, in standard deviations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from creditflow.wrappers.credit.base import Credit, require_range
from creditflow.wrappers.credit.outcome import RELEASE_OUTCOME, OutcomeScheme, outcome_scores
from creditflow.wrappers.credit.registry import register
from creditflow.wrappers.records.group import Group

__all__ = ["GRPO"]


@register
@dataclass(frozen=True, kw_only=True)
class GRPO(OutcomeScheme):
    """A_i = (R_i − mean R) / std R over the group, with the same number on every turn.

    ``outcome_scale="none"`` is Dr. GRPO.

    Attributes:
        length_factor: ours: R_i is multiplied by this to the power of the rollout's number of turns, so that a shorter
            success counts for more. 1 is the published outcome. It is the cheap alternative to schemes that discount
            returns.
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

    length_factor: float = 1.0

    def __post_init__(self) -> None:
        """Check every parameter."""
        super().__post_init__()
        require_range(self, "length_factor", 0.0, 1.0, above=True)

    def assign(self, group: Group) -> Credit:
        """Score one group."""
        scores = None
        if self.length_factor != 1.0:
            turns = np.diff(group.episode_index.offsets)
            scores = outcome_scores(group, self.outcome) * self.length_factor**turns
        outcome, turn_part = self.outcome_part(group, scores=scores)
        return Credit.of(
            group,
            outcome=outcome,
            step={
                "outcome, changed by the turn's own penalty": turn_part,
                "penalty of the advantage": -self.advantage_penalties(group),
            },
            aggregation="trajectory_mean" if self.stats_over == "trajectories" else "token_mean",
        )
