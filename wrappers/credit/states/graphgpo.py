"""GraphGPO: outcome advantage plus each transition's distance to success, relative to others from that state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers.canonical.similarity import greedy_similarity
from creditflow.wrappers.credit.base import Credit
from creditflow.wrappers.credit.normalize import Scale, normalize
from creditflow.wrappers.credit.outcome import RELEASE_OUTCOME, ReleasedOutcomeScheme
from creditflow.wrappers.credit.registry import register
from creditflow.wrappers.credit.states.keys import MergingScheme, of_nodes
from creditflow.wrappers.graphs.state_graph import StateGraph
from creditflow.wrappers.records.group import Group

__all__ = ["GraphGPO"]


@register
@dataclass(frozen=True, kw_only=True)
class GraphGPO(MergingScheme, ReleasedOutcomeScheme):
    """A = w_E A^E + w_G (r − mean_{G(s)} r) / std_{G(s)} r with r(s, a, s′) = R_succ γ_d^(d(s′) + c(s, a)).

    d is the least cost from a state to success over all transitions that the group observed (eq. 3). If success is
    unreachable, d = d_max + 1 with d_max the largest finite distance (eq. 4). G(s) contains all traversals of edges
    that leave s (eq. 5). A state with one traversal gives 0 (eq. 6).

    Attributes:
        distance_discount: γ_d in (0, 1). The paper uses 0.1 to 0.8.
        success_reward: R_succ.
        episode_weight, step_weight: w_E, w_G.
        outcome_scale: "std" divides the outcome by its standard deviation, "none" does not.
        step_scale: "std" (paper) or "none".
        exponent: "next+cost" (paper), "next" (released code: without the cost, a constant factor), "progress" (released
            option: d(s′) + c − d(s), the same ranking with one scale at every distance) or "log" (ours: r = −(d(s′) +
            c) itself, so that eps does not dominate in states far from success).
        terminals: "typed": successes of the environment are goals, and failed ends are nodes of their own. "merged" (released
            code): episodes with a positive return end in a goal, and a failed end is the open state of the same key.
        similarity: 0, or a difflib ratio in (0, 1) at which nodes merge greedily. Turns are still compared in exactly
            equal states, as released. The result depends on the order of trajectories.
    """

    name = "graphgpo"
    source = "GraphGPO (arXiv 2605.26684) eqs. 2 to 8. Released code: recipe/GraphGPO of verl-agent"
    credit_needs = "a success"
    verification = "the paper, and numbers computed by the released code (release preset)"
    limitations = (
        "Distances join transitions of different trajectories. With random transitions or aliased keys they describe "
        "paths that no policy can follow. The shortest observed path counts as the best one, however unlikely it is."
    )
    presets = {"paper": {}, "release": {**RELEASE_OUTCOME, "key": "text", "exponent": "next", "terminals": "merged"}}
    properties = frozenset(
        {
            "all_fail_zero",
            "branches",
            "conditional_variance",
            "monotone",
            "one_member_zero",
            "permutation",
            "scale",
            "shift",
            "ties_zero",
        }
    )
    ranges = {"distance_discount": "(0, 1)", "success_reward": "(0, inf)", "similarity": "[0, 1)"}

    distance_discount: float = 0.1
    success_reward: float = 10.0
    episode_weight: float = 1.0
    step_weight: float = 1.0
    outcome_scale: Scale = "std"
    step_scale: Scale = "std"
    exponent: Literal["next+cost", "next", "progress", "log"] = "next+cost"
    terminals: Literal["typed", "merged"] = "typed"
    similarity: float = 0.0

    def assign(self, group: Group) -> Credit:
        """Score one group."""
        outcome, turn_part = self.outcome_part(group, scale=self.outcome_scale)
        arrays, states = group.arrays, self.states(group)
        goal = arrays.returns > 0.0 if self.terminals == "merged" else None
        labels = None
        if self.similarity:
            arrived = (
                arrays.last & (arrays.success if goal is None else goal)[arrays.trajectory]
            )  # goals are not compared
            visited = np.stack([states.state, np.where(arrived, states.state, states.next_state)], axis=1)
            labels = greedy_similarity(states.keys, visited.ravel().tolist(), self.similarity)
        graph = StateGraph.from_group(
            group, key=self.key, labels=labels, goal=goal, failed="separate" if self.terminals == "typed" else "merge"
        )
        distance = graph.distances()
        rewards = self._rewards(graph, distance)
        scores = rewards - self.penalties(group)
        compared = normalize(
            scores,
            states.state,
            len(states.keys),
            scale=self.step_scale,
            std_eps=self.std_eps,
            quantity="reward of the transition",
        )
        return Credit.of(
            group,
            outcome=self.episode_weight * outcome,
            step={
                "outcome, changed by the turn's own penalty": self.episode_weight * turn_part,
                "transition in the state": self.step_weight * compared,
            },
            rewards=rewards,
            diagnostics={"step_advantage": compared, "graph": graph, **of_nodes(graph.keys, distance=distance)},
        )

    def _rewards(self, graph: StateGraph, distance: NDArray[np.float64]) -> NDArray[np.float64]:
        """r of each turn (N,)."""
        finite = np.isfinite(distance)
        any_success = bool(finite.any())
        bounded = np.where(finite, distance, (distance[finite].max() if any_success else 0.0) + 1.0)
        after, before = bounded[graph.target], bounded[graph.source]
        length = after + (graph.cost if any_success else 1.0)  # without a success all transitions are equal
        if self.exponent == "log":
            return -length
        power = {"next+cost": length, "next": after, "progress": length - before}[self.exponent]
        rewards: NDArray[np.float64] = self.success_reward * self.distance_discount**power
        return rewards
