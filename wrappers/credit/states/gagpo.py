"""GAGPO: generalised advantage estimation whose critic is the mean return of each state in the group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from creditflow.wrappers.credit.base import Credit, require_range
from creditflow.wrappers.credit.normalize import normalize
from creditflow.wrappers.credit.outcome import PenaltyScheme
from creditflow.wrappers.credit.registry import register
from creditflow.wrappers.credit.states.keys import StateScheme, of_nodes
from creditflow.wrappers.records.group import Group, backward_sums

__all__ = ["GAGPO"]


@register
@dataclass(frozen=True, kw_only=True)
class GAGPO(StateScheme, PenaltyScheme):
    """A = (Ã − mean Ã) / std Ã over the turns of the group, with Ã_t = δ_t + γλ Ã_{t+1}, δ_t = r_t + γV(s_{t+1}) − V(s_t).

    V(s) is the mean discounted return of all visits of s in the group, including the turn's own. V is 0 after the last
    turn, also of a truncated episode. There is no outcome advantage, because it made the paper's results worse.

    λ = 1 gives Ã_t = G_t − V(s_t), which is GiGPO's step advantage without division by the standard deviation of each
    state. A state visited once then gets 0. With λ < 1 the values of later states contribute too. The method is related
    to ``grouptd`` with prior="none", where V solves the Bellman equation of the observed transitions instead.

    The formula is from secondary sources that agree. No code was found. The following choices are ours: γ, λ, the
    population deviation without eps, normalisation over the group, branches as full episodes, and the treatment of
    invalid turns (no rule is known). The paper multiplies this advantage by one importance ratio per turn, averaged
    over turns. Our trainer clips per token, so ``aggregation`` is "turn_mean".

    Attributes:
        discount: γ (ours, not published).
        gae_lambda: λ (ours, not published). According to the paper, 0 and 1 are worse.
    """

    name = "gagpo"
    source = "GAGPO (arXiv 2605.13217). The formula is from secondary sources, and γ and λ are ours"
    second_hand = True
    credit_needs = "repeated states"
    verification = "secondary sources (no code found, and γ and λ are ours)"
    limitations = (
        "There is no outcome advantage. If keys never repeat, the value of a state is the turn's own return and the "
        "temporal difference is 0. A state visited once in a success has value 1."
    )
    properties = frozenset({"all_fail_zero", "branches", "one_member_zero", "permutation", "scale", "ties_zero"})

    discount: float = 0.95
    gae_lambda: float = 0.95

    def __post_init__(self) -> None:
        """Check every parameter."""
        super().__post_init__()
        require_range(self, "discount", 0.0, 1.0)
        require_range(self, "gae_lambda", 0.0, 1.0)

    def assign(self, group: Group) -> Credit:
        """Score one group."""
        episodes = group.episode_index
        rewards = group.arrays.reward[episodes.stored]
        penalties = self.penalties(group)[episodes.stored]
        states = self.states(group)
        state = states.state[episodes.stored]
        visits = np.maximum(np.bincount(state, minlength=len(states.keys)), 1)
        returns = backward_sums(rewards, episodes.offsets, self.discount)
        value = np.bincount(state, returns, minlength=len(states.keys)) / visits
        before = value[state]
        after = np.where(episodes.last, 0.0, np.append(before[1:], 0.0))
        delta = rewards + self.discount * after - before
        advantages = backward_sums(delta, episodes.offsets, self.discount * self.gae_lambda)
        # Ã is a sum of rewards and values; its rounding error is relative to their size
        sizes = backward_sums(np.abs(rewards), episodes.offsets, self.discount)
        magnitude = np.bincount(state, sizes, minlength=len(states.keys)) / visits
        compared = normalize(
            advantages - penalties,
            np.zeros(len(state), np.int32),
            1,
            std_kind="population",
            magnitude=sizes + magnitude[state] + penalties,
            quantity="generalised advantage",
            rows=episodes.stored,
        )[episodes.own]
        return Credit.of(
            group,
            outcome=np.zeros(group.arrays.size),
            step={"generalised advantage": compared},
            rewards=advantages[episodes.own],
            aggregation="turn_mean",
            diagnostics={"step_advantage": compared, **of_nodes(states.keys, values=value)},
        )
