"""RewardFlow: outcome advantage plus the change of a potential propagated from success through the state graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError
from creditflow.wrappers.credit.base import Credit, require_range
from creditflow.wrappers.credit.normalize import Scale, normalize
from creditflow.wrappers.credit.outcome import RELEASE_OUTCOME
from creditflow.wrappers.credit.registry import register
from creditflow.wrappers.credit.states.keys import StateScheme
from creditflow.wrappers.credit.states.rewardflow.propagation import success_potential
from creditflow.wrappers.credit.states.rewardflow.release import released_rewards
from creditflow.wrappers.graphs.state_graph import StateGraph
from creditflow.wrappers.records.group import Group

__all__ = ["RewardFlow"]


@register
@dataclass(frozen=True, kw_only=True)
class RewardFlow(StateScheme):
    """A = a_act (q − mean) / F_norm over turns at the same state + a_traj A_traj, with q = R(s′) − R(s).

    R(s) = γ^d(s), d the number of hops to a success over the group's transitions, 0 where none is reachable (eqs. 2 to
    4); invalid transitions and those that do not change the state are pruned from the graph first. A turn whose
    transition was pruned still gets the difference of its two states (as the paper's wording implies; ``pruned_turns``
    repairs it). With ``merge``, similar states are one node before propagation, whose potential is at least that of its
    best member.

    Where the paper is silent, ours: a success that cannot be reached from a state is left out of its mean (table 11's
    formula would give R = 0 to every state that misses one of several); a success has d = 0, although it reaches no other.

    Attributes:
        discount: γ.
        action_weight, trajectory_weight: a_act, a_traj.
        step_scale: F_norm, "std" or "none".
        propagation: "success_hops" (paper); "mean_hops" (table 11): d is the mean over all successes; "graph_network": R(s) is
            γ times the mean of R over the edges that leave s, which is what a graph network without weights to train
            computes (the paper discusses networks in appendix C.3, and gives none); or "first_seen_rewards" (released
            code: every node starts with the environment reward of the transition that first entered it, then V ← max(V, γ max V(next)); the last
            transition is missing in episodes as long as the longest of the batch, which get the raw reward instead).
        pruning: which turns are not edges: "invalid" (paper: invalid, or without effect), "self_loops" (released code
            for Sokoban, WebShop, Search) or "alfworld" (released ALFWorld manager: looking around and "Nothing
            happens" are skipped and bridged; requires keys that are texts).
        pruned_turns: "difference" (paper); "zero" gives pruned turns q = 0; "exclude" also leaves them out of the
            comparison.
    """

    name = "rewardflow"
    source = "RewardFlow (arXiv 2603.18859) eqs. 2 to 9 and table 11; release: tmlr-group/RewardFlow @ 1cdead8"
    credit_needs = "a success"
    verification = "paper read; release checked against numbers computed by the released code"
    limitations = (
        "The potential depends on distance, not on the probability of success, so random transitions and aliased "
        "keys mislead it. Division by the deviation in each state makes small differences as large as decisive "
        "ones; without it (rewardflow_raw), keys that never repeat leave almost no credit."
    )
    presets = {
        "paper": {"outcome": "success"},
        "release": {
            **RELEASE_OUTCOME,
            "key": "text",
            "outcome_scale": "none",
            "step_scale": "none",
            "propagation": "first_seen_rewards",
            "pruning": "self_loops",
        },
    }
    properties = frozenset(
        {"all_fail_zero", "branches", "one_member_zero", "permutation", "scale", "shift", "telescoping", "ties_zero"}
    )

    discount: float = 0.9
    action_weight: float = 1.0
    trajectory_weight: float = 1.0
    step_scale: Scale = "std"
    propagation: Literal["success_hops", "mean_hops", "graph_network", "first_seen_rewards"] = "success_hops"
    pruning: Literal["invalid", "self_loops", "alfworld"] = "invalid"
    pruned_turns: Literal["difference", "zero", "exclude"] = "difference"

    def __post_init__(self) -> None:
        """Check every parameter."""
        super().__post_init__()
        require_range(self, "discount", 0.0, 1.0)
        if self.pruning == "alfworld" and self.propagation != "first_seen_rewards":
            raise ConfigError(
                "rewardflow: pruning='alfworld' bridges skipped turns in the released propagation only; use "
                "pruning='invalid', or propagation='first_seen_rewards'"
            )
        if self.pruning == "alfworld" and self.merge != "none":
            raise ConfigError(
                "rewardflow: pruning='alfworld' reads the text of every state, which merge replaces by that of its "
                "representative; use pruning='invalid' or merge='none'"
            )

    @property
    def couples_groups(self) -> bool:
        """The released propagation depends on the longest episode of the batch."""
        return self.propagation == "first_seen_rewards"

    def assign(self, group: Group) -> Credit:
        """Score one group."""
        return self.assign_batch([group])[0]

    def assign_batch(self, groups: Sequence[Group]) -> list[Credit]:
        """Score many groups; the released propagation depends on the longest episode of the batch."""
        longest = max((int(np.diff(group.episode_index.offsets).max(initial=0)) for group in groups), default=0)
        return [self._assign(group, longest) for group in groups]

    def _assign(self, group: Group, longest: int) -> Credit:
        leaders = self.leaders(group)
        states = self.states(group, leaders)
        graph = StateGraph.from_group(group, key=self.key, labels=leaders)
        pruned = self._pruned(group, graph)
        if self.propagation == "first_seen_rewards":
            value, rewards = released_rewards(
                group, states, self.discount, longest, kept=None if self.pruning == "alfworld" else ~pruned
            )
            after, before = value[states.next_state], value[states.state]
            names = states.keys
        else:
            graph = replace(graph, kept=~pruned)
            value = success_potential(graph, self.discount, self.propagation)
            after, before = value[graph.target], value[graph.source]
            rewards = after - before
            names = graph.keys
        if self.pruned_turns != "difference":
            rewards = np.where(pruned, 0.0, rewards)
        outcome, turn_part = self.outcome_part(group)
        penalties = self.score_penalties(group)
        compared = normalize(
            rewards - penalties,
            states.state,
            len(states.keys),
            scale=self.step_scale,
            std_eps=self.std_eps,
            sample=~pruned if self.pruned_turns == "exclude" else None,
            magnitude=np.abs(after) + np.abs(before) + penalties,
            quantity="change of potential",
        )
        if self.pruned_turns == "exclude":
            compared = np.where(pruned, 0.0, compared)
        return Credit.of(
            group,
            outcome=self.trajectory_weight * outcome,
            step={
                "outcome, changed by the turn's own penalty": self.trajectory_weight * turn_part,
                "change of potential in the state": self.action_weight * compared,
                "penalty of the advantage": -self.advantage_penalties(group),
            },
            rewards=rewards,
            aggregation="token_mean" if self.propagation == "first_seen_rewards" else "turn_mean",
            diagnostics={"step_advantage": compared, "node_value": value, "node_keys": names, "pruned": pruned},
        )

    def _pruned(self, group: Group, graph: StateGraph) -> NDArray[np.bool_]:
        """bool (N,): turns whose transition is not an edge.

        A turn that ends the episode changes the state even if the key stays the same: its terminal node is not open.
        """
        self_loop: NDArray[np.bool_] = graph.source == graph.target
        return self_loop | ~group.arrays.valid if self.pruning == "invalid" else self_loop
