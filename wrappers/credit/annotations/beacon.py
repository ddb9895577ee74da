"""BEACON: trajectories cut at milestones, with rewards that decay backwards from each, compared within equal segments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from creditflow.wrappers.credit.annotations.values import turn_values
from creditflow.wrappers.credit.base import Credit
from creditflow.wrappers.credit.normalize import Scale, normalize
from creditflow.wrappers.credit.outcome import RELEASE_OUTCOME, ReleasedOutcomeScheme
from creditflow.wrappers.credit.registry import register
from creditflow.wrappers.records.group import Group, backward_sums

__all__ = ["BEACON"]


@register
@dataclass(frozen=True, kw_only=True)
class BEACON(ReleasedOutcomeScheme):
    """A = A^E + ω (r − mean r) over the group's turns that have the same number of milestones behind them.

    r_t = γ^(τ − t), where τ is the first turn from t on that attains a milestone, and r_t = 0 if none does. A
    turn is in segment k if its episode attained k milestones before it, so that segment k of one rollout is compared
    with segment k of the others. A distant failure therefore does not change the credit of turns that led to a
    milestone.

    The annotation "milestone" marks the turns that attain a milestone (1 if the turn attains one, otherwise 0), and the
    environment must provide it. The released code matches ALFWorld's actions with a list for each game, and detects
    WebShop's milestones from its pages. The paper's abstract and the released code were read. In that code a success
    has R = 10 and a milestone 10, whereas here a milestone has 1. Its scripts set ω = 1 and γ = .95 (WebShop,
    ScienceWorld), and ω = 10 and γ = .9 on ALFWorld.

    Attributes:
        discount: γ.
        step_weight: ω.
        outcome_scale: "std" divides the outcome by its standard deviation, "none" does not.
    """

    name = "beacon"
    source = "BEACON (arXiv 2605.06078), the abstract. Released code: ZJU-REAL/BEACON @ db9347f, migpo/core_migpo.py"
    verification = "the abstract, the released code, and numbers computed by that code (release preset)"
    limitations = (
        "Someone must define the milestones. The order in which an episode attains them does not matter, because its "
        "k-th segment is compared with every other k-th segment. Turns get credit for milestones even in groups "
        "without a success."
    )
    presets = {"paper": {}, "release": {**RELEASE_OUTCOME, "outcome_scale": "none"}}
    requires = ("milestone",)
    properties = frozenset({"branches", "one_member_zero", "permutation", "scale", "shift"})
    ranges = {"discount": "[0, 1]"}

    discount: float = 0.95
    step_weight: float = 1.0
    outcome_scale: Scale = "std"

    def assign(self, group: Group) -> Credit:
        """Score one group."""
        outcome, turn_part = self.outcome_part(group, scale=self.outcome_scale)
        episodes = group.episode_index
        attained = turn_values(group, "milestone", scheme=self.name)[episodes.stored] > 0.5
        rewards = backward_sums(attained.astype(np.float64), episodes.offsets, np.where(attained, 0.0, self.discount))
        count = np.concatenate([[0], np.cumsum(attained)])
        segment = count[:-1] - count[episodes.offsets[:-1]][episodes.episode]
        compared = normalize(
            rewards,
            segment.astype(np.int32),
            int(segment.max(initial=-1)) + 1,
            scale="none",
            quantity="reward by the next milestone",
            rows=episodes.stored,
        )[episodes.own]
        return Credit.of(
            group,
            outcome=outcome,
            step={
                "outcome, changed by the turn's own penalty": turn_part,
                "next milestone, among turns of this segment": self.step_weight * compared,
            },
            rewards=rewards[episodes.own],
            diagnostics={"segment": segment[episodes.own], "step_advantage": compared},
        )
