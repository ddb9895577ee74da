"""Stateless: the outcome, discounted by the turns that follow, against its mean over the group. It reads no states."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from creditflow.wrappers.credit.base import Credit, Scheme
from creditflow.wrappers.credit.outcome import Outcome, outcome_scores
from creditflow.wrappers.credit.registry import register
from creditflow.wrappers.records.group import Group

__all__ = ["Stateless"]


@register
@dataclass(frozen=True, kw_only=True)
class Stateless(Scheme):
    """A_it = R_i γ^(T_i − 1 − t) minus its mean over all turns of the group, for rollout i of T_i turns.

    It is the control of this package's studies. On tasks with short solutions a discount alone already favours the later turns
    and the shorter rollouts. What a scheme over states gains on it is what it learns from states.

    Attributes:
        discount: γ in [0, 1].
        outcome: R_i: the graded "score" in [0, 1], "success" (0/1) or "return".
    """

    name = "stateless"
    source = "our own control: a discounted outcome, REINFORCE with the group's mean as baseline"
    credit_needs = "a success"
    verification = "values worked out by hand (the scheme is ours)"
    limitations = (
        "It cannot tell a good turn from a bad one of the same rollout: all it knows is how many turns followed. The mean is over "
        "turns, so a longer rollout counts for more in it."
    )
    properties = frozenset({"all_fail_zero", "one_member_zero", "permutation"})
    ranges = {"discount": "[0, 1]"}

    discount: float = 0.9
    outcome: Outcome = "score"

    def assign(self, group: Group) -> Credit:
        """Score one group."""
        episodes = group.episode_index
        discounted = outcome_scores(group, self.outcome)[episodes.episode] * self.discount**episodes.following
        mean = discounted.mean() if discounted.size else 0.0
        discounted = discounted[episodes.own]
        return Credit.of(
            group,
            step={
                "outcome, discounted by the turns that follow": discounted,
                "mean over the group's turns": np.full(len(discounted), -mean),
            },
            rewards=discounted,
        )
