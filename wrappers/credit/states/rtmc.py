"""RTMC: rollouts as a Monte Carlo tree, where the credit is an action's mean return minus the smoothed mean return of its state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from creditflow.wrappers.credit.base import Credit, require_range
from creditflow.wrappers.credit.outcome import PenaltyScheme, outcome_scores
from creditflow.wrappers.credit.registry import register
from creditflow.wrappers.credit.states.keys import StateScheme, of_nodes
from creditflow.wrappers.records.group import Group

__all__ = ["RTMC"]


@register
@dataclass(frozen=True, kw_only=True)
class RTMC(StateScheme, PenaltyScheme):
    """A(s, a) = Q(s, a) − V′(s) with V′(s) = (N(s) V(s) + N₀ V₀) / (N(s) + N₀), the same for all visits of (s, a).

    The return of turn t is γ^(T − 1 − t) R_i, and the first visit of each (s, a) in each rollout counts. Q(s, a) is the
    mean over those rollouts, V(s) the mean of all N(s) counted returns in s, and V₀ = mean R over the group,
    **undiscounted**. Q is not smoothed, and there is no outcome advantage.

    The formula, γ and N₀ are from secondary sources and another project's port, which agree. Four choices are ours:
    states and actions are the log's keys (the paper builds its own signatures for coding), R is the graded score,
    branches are full episodes, and the loss aggregation is GRPO's.

    This has two consequences. A pair visited once gets N₀/(1 + N₀) (G_t − V₀), so every turn has credit, even in a
    group of one. In a group of successes the credit is **not** zero, because V₀ = 1 exceeds every discounted return. ``prior="return"`` centres it.

    Attributes:
        discount: γ.
        prior_weight: N₀ ≥ 0, in visits.
        prior: V₀: "outcome" (paper), or "return" (ours: mean of all counted returns of the group, discounted).
    """

    name = "rtmc"
    source = (
        "RTMC (arXiv 2604.11037). The formula is from secondary sources, checked against another project's port "
        "(prime-rl, rtmc_sig.py)"
    )
    second_hand = True
    credit_needs = "a success"
    verification = "secondary sources and another project's port"
    limitations = (
        "The prior V₀ is not discounted, but returns are. A group in which every rollout succeeds therefore gets "
        'credit, which is negative in early turns, unless prior is "return". States visited '
        "once get the outcome advantage, shrunk."
    )
    properties = frozenset({"all_fail_zero", "branches", "permutation", "scale", "shift"})

    outcome: Literal["return", "success", "score"] = "score"
    discount: float = 0.99
    prior_weight: float = 2.0
    prior: Literal["outcome", "return"] = "outcome"

    def __post_init__(self) -> None:
        """Check every parameter."""
        super().__post_init__()
        require_range(self, "discount", 0.0, 1.0)
        require_range(self, "prior_weight", 0.0, np.inf)

    def assign(self, group: Group) -> Credit:
        """Score one group."""
        arrays, episodes = group.arrays, group.episode_index
        states = self.states(group)
        state = states.state[episodes.stored].astype(np.int64)
        scores = outcome_scores(group, self.outcome)
        to_go = episodes.offsets[1:][episodes.episode] - 1 - np.arange(len(state))
        returns = scores[episodes.episode] * self.discount**to_go
        _, pair = np.unique(state * len(arrays.actions) + arrays.action[episodes.stored], return_inverse=True)
        _, first = np.unique(episodes.episode.astype(np.int64) * len(state) + pair, return_index=True)
        counted = returns[first]
        visits = np.bincount(pair[first])
        q = np.bincount(pair[first], counted) / np.maximum(visits, 1)
        at_state = np.bincount(state[first], minlength=len(states.keys))
        total = np.bincount(state[first], counted, minlength=len(states.keys))
        averaged = scores if self.prior == "outcome" else counted
        prior = float(averaged.mean()) if averaged.size else 0.0
        weight = at_state + self.prior_weight
        value = np.divide(total + self.prior_weight * prior, weight, out=np.zeros(len(weight)), where=weight > 0.0)
        step = q[pair] - value[state]
        return Credit.of(
            group,
            outcome=np.zeros(arrays.size),
            step={
                "mean return of the action minus value of the state": step[episodes.own],
                "penalty": -self.penalties(group),
            },
            rewards=returns[episodes.own],
            aggregation="trajectory_mean",
            diagnostics={
                "action_value": q[pair][episodes.own],
                "prior": prior,
                **of_nodes(states.keys, values=value),
            },
        )
