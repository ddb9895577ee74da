"""G2PO: the mean value of each state over the group's graph, and the temporal differences of its edges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from creditflow.wrappers.credit.base import Credit
from creditflow.wrappers.credit.normalize import Scale, normalize
from creditflow.wrappers.credit.outcome import RELEASE_OUTCOME, ReleasedOutcomeScheme, outcome_scores, outcome_sizes
from creditflow.wrappers.credit.registry import register
from creditflow.wrappers.credit.states.keys import StateScheme, of_nodes
from creditflow.wrappers.records.group import Group

__all__ = ["G2PO"]


@register
@dataclass(frozen=True, kw_only=True)
class G2PO(StateScheme, ReleasedOutcomeScheme):
    """A = A^E + ω [norm over the turns at s of V(s′) + norm over all turns of the group of (V(s′) − V(s))].

    V(s) = mean of γ^(T_i − t) R_i over all visits (i, t) of s in the group, where t counts from 0, so that the last
    turn has exponent 1. After the last turn V is R_i for a success and 0 for any other end. norm subtracts the mean and
    divides by the standard deviation of the sample. The first term of a state visited once is 0. The second term is the
    temporal difference of the edge, standardised over the whole graph. A penalty enters the first term and the outcome,
    not the second.

    Only the abstract of the paper could be read, so the formula is that of the released code. That code divides by
    deviations on ALFWorld (``mode=mean_std_norm``, here "paper", because the abstract says "standardizing"), but not on
    WebShop (``mean_norm``, the default of the code, here "release"). Branches count as full episodes, which is our
    choice.

    Compared with ``gigpo``, a turn gets the mean return of the state it leads to instead of its own return. Compared
    with ``grouptd``, V averages the outcomes of visits instead of solving the Bellman equation of the observed
    transitions.

    Attributes:
        discount: γ, which is .95 in the released code regardless of the trainer's setting.
        step_weight: ω.
        scale: "std" divides outcome and both norms by standard deviations, "none" only subtracts the means.
    """

    name = "g2po"
    source = "G2PO (arXiv 2606.22995), the abstract. Released code: Nala-YN/G2PO @ b8ffaf5, g2po/core_g2po.py"
    credit_needs = "repeated states"
    verification = "the abstract, the released code, and numbers computed by that code (release preset)"
    limitations = (
        "The second term compares turns of all states, so an expected step gets credit for its position in the "
        "episode, and equal rollouts get unequal credit for their turns. Graded outcomes of failures count in V, but "
        "not after the last turn. All rewards count as if they came at the end. With negative rewards before the "
        "end, a longer failure therefore gets less blame for the same first turn."
    )
    presets = {"paper": {}, "release": {**RELEASE_OUTCOME, "key": "text", "scale": "none"}}
    properties = frozenset({"all_fail_zero", "branches", "one_member_zero", "permutation", "scale", "telescoping"})
    ranges = {"discount": "[0, 1]"}

    discount: float = 0.95
    step_weight: float = 1.0
    scale: Scale = "std"

    def assign(self, group: Group) -> Credit:
        """Score one group."""
        outcome, turn_part = self.outcome_part(group, scale=self.scale)
        episodes, states = group.episode_index, self.states(group)
        state, size = states.state[episodes.stored], len(states.keys)
        scores = outcome_scores(group, self.outcome)
        visits = np.maximum(np.bincount(state, minlength=size), 1)
        value = (
            np.bincount(state, self.discount ** (episodes.following + 1) * scores[episodes.episode], minlength=size)
            / visits
        )
        before = value[state]
        end = np.where(group.arrays.success, scores, 0.0)[episodes.episode]
        after = np.where(episodes.last, end, np.append(before[1:], 0.0))
        magnitude = np.full(len(state), outcome_sizes(group, self.outcome).max(initial=0.0))
        penalties = self.penalties(group)[episodes.stored]
        in_state = normalize(
            after - penalties,
            state,
            size,
            scale=self.scale,
            std_eps=self.std_eps,
            magnitude=magnitude + penalties,
            quantity="value of the next state",
            rows=episodes.stored,
        )
        on_graph = normalize(
            after - before,
            np.zeros(len(state), np.int32),
            1,
            scale=self.scale,
            std_eps=self.std_eps,
            magnitude=magnitude,
            quantity="temporal difference of the edge",
            rows=episodes.stored,
        )
        return Credit.of(
            group,
            outcome=outcome,
            step={
                "outcome, changed by the turn's own penalty": turn_part,
                "value of the next state, among turns in the state": self.step_weight * in_state[episodes.own],
                "temporal difference, among all edges": self.step_weight * on_graph[episodes.own],
            },
            rewards=(after - before)[episodes.own],
            diagnostics={"step_advantage": (in_state + on_graph)[episodes.own], **of_nodes(states.keys, values=value)},
        )
