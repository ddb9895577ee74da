"""HCAPO: outcome advantage plus returns weighted by how likely each action is in hindsight of the final state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from creditflow.wrappers.credit.annotations.values import turn_values
from creditflow.wrappers.credit.base import Credit, require_range
from creditflow.wrappers.credit.normalize import normalize
from creditflow.wrappers.credit.outcome import OutcomeScheme, outcome_scores
from creditflow.wrappers.credit.registry import register
from creditflow.wrappers.records.group import Group

__all__ = ["HCAPO"]


@register
@dataclass(frozen=True, kw_only=True)
class HCAPO(OutcomeScheme):
    """A = A_macro + ω A_micro: z-scores of R over the group, and of Q_t = ρ_t γ^(T − 1 − t) R over the turns of the group.

    ρ_t = clip(h_t / mean h over the rollout, 1 − c, 1 + c), h_t = exp(ℓ_t / temperature), and ℓ_t the mean
    log-probability of the taken action's tokens given its state and the rollout's **final state**, which is the
    annotation "logp.hindsight". In a successful rollout a negative A_micro becomes 0 ("do no harm").

    The source is detailed notes on the paper. No code was found. Two choices are ours: the population deviation, and credit 0
    if all Q are equal. R = 0 gives Q = 0 for every ρ, so all
    turns of failures get the same A_micro. The paper's rewards are 10 for success and −.1 for an invalid turn.

    Attributes:
        discount: γ.
        temperature: temperature of h.
        ratio_clip: c.
        step_weight: ω.
    """

    name = "hcapo"
    source = "HCAPO (arXiv 2603.08754). The formula is from detailed notes on the paper"
    second_hand = True
    verification = "notes on the paper (no code found)"
    limitations = (
        "All turns of failures get the same step advantage. If the final state does not depend on the action, all"
        " ratios are near 1 and the step advantage is a discounted outcome."
    )
    requires = ("logp.hindsight",)
    properties = frozenset({"all_fail_zero", "branches", "one_member_zero", "permutation", "scale"})

    discount: float = 0.95
    temperature: float = 5.0
    ratio_clip: float = 0.2
    step_weight: float = 1.0

    def __post_init__(self) -> None:
        """Check every parameter."""
        super().__post_init__()
        require_range(self, "discount", 0.0, 1.0)
        require_range(self, "temperature", 0.0, np.inf, above=True)
        require_range(self, "ratio_clip", 0.0, 1.0)

    def assign(self, group: Group) -> Credit:
        """Score one group.

        Raises:
            CreditError: a turn has no hindsight log-probability.
        """
        episodes = group.episode_index
        owner, n = episodes.episode, len(episodes.stored)
        logs = turn_values(group, "logp.hindsight", scheme=self.name)[episodes.stored] / self.temperature
        highest = np.full(len(group), -np.inf)
        np.maximum.at(highest, owner, logs)
        likelihood = np.exp(logs - highest[owner])  # relative to the rollout's largest, which does not change the ratio
        length = np.maximum(np.diff(episodes.offsets), 1)
        ratio = likelihood / (np.bincount(owner, likelihood, minlength=len(group)) / length)[owner]
        to_go = episodes.offsets[1:][owner] - 1 - np.arange(n)
        outcomes = outcome_scores(group, self.outcome)
        q = np.clip(ratio, 1.0 - self.ratio_clip, 1.0 + self.ratio_clip) * self.discount**to_go * outcomes[owner]
        penalties = self.penalties(group)[episodes.stored]
        micro = normalize(
            q - penalties, np.zeros(n, np.int32), 1,std_kind="population",
            quantity="hindsight value", rows=episodes.stored,
        )  # fmt: skip
        micro = np.where(group.arrays.success[owner], np.maximum(micro, 0.0), micro)[episodes.own]
        outcome, turn_part = self.outcome_part(group, std_kind="population")
        return Credit.of(
            group,
            outcome=outcome,
            step={
                "outcome, changed by the turn's own penalty": turn_part,
                "hindsight value": self.step_weight * micro,
            },
            rewards=q[episodes.own],
            aggregation="turn_mean",
            diagnostics={"step_advantage": micro, "ratio": ratio[episodes.own]},
        )
