"""RLOO: the outcome relative to the leave-one-out mean of the group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from creditflow.wrappers.credit.base import Credit
from creditflow.wrappers.credit.outcome import RELEASE_OUTCOME, ReleasedOutcomeScheme
from creditflow.wrappers.credit.registry import register
from creditflow.wrappers.records.group import Group

__all__ = ["RLOO"]


@register
@dataclass(frozen=True, kw_only=True)
class RLOO(ReleasedOutcomeScheme):
    """A_i = R_i − mean of R over the other trajectories = N/(N−1) (R_i − mean R), not divided by a deviation."""

    name = "rloo"
    source = "Ahmadian et al. 2024 (Back to Basics, arXiv 2402.14740) eq. 5. Released code: verl-agent"
    credit_needs = "unequal outcomes"
    verification = "the paper, and numbers computed by the released code (release preset)"
    limitations = (
        "As with grpo, all turns get the same credit. Because the credit is not divided by a deviation, rewards of "
        "another scale need another learning rate."
    )
    presets = {"paper": {}, "release": RELEASE_OUTCOME}
    properties = frozenset(
        {
            "all_fail_zero",
            "branches",
            "homogeneous",
            "one_member_zero",
            "permutation",
            "shift",
            "stopping_time",
            "ties_zero",
        }
    )

    def assign(self, group: Group) -> Credit:
        """Score one group."""
        outcome, turn_part = self.outcome_part(group, scale="none")
        n_turns, started = len(group.arrays.parsed), int(np.count_nonzero(np.diff(group.episode_index.offsets)))
        samples = {"trajectories": len(group), "turns": n_turns, "first_turns": started}[self.stats_over]
        if samples > 1 and outcome.any():
            ratio = samples / (samples - 1)  # N/(N−1) (x − mean) = x − mean of the others
            outcome, turn_part = ratio * outcome, ratio * turn_part
        return Credit.of(
            group,
            outcome=outcome,
            step={"outcome, changed by the turn's own penalty": turn_part},
            aggregation="trajectory_mean" if self.stats_over == "trajectories" else "token_mean",
        )
