"""RewardFlow: outcome advantage plus the change of a potential propagated from success through the state graph.

The paper compares the nearest success with the mean over all (its table 11), and only discusses graph networks (its appendix C.3),
which it does not use because they need labelled graphs and training. What is left of one without training is its aggregation.

The released code differs from the paper in three ways. Propagation starts from environment rewards, and the first
transition that enters a node sets the node's reward. The last transition exists only in episodes shorter than the
longest of the batch. On ALFWorld, runs of turns that only look around are bridged.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError
from creditflow.wrappers.credit.base import Credit
from creditflow.wrappers.credit.normalize import Scale, normalize
from creditflow.wrappers.credit.outcome import RELEASE_OUTCOME, ReleasedOutcomeScheme
from creditflow.wrappers.credit.registry import register
from creditflow.wrappers.credit.states.keys import MergingScheme, of_nodes
from creditflow.wrappers.credit.states.mean_backup import Backup, stationary_values
from creditflow.wrappers.graphs.distances import shortest_distances
from creditflow.wrappers.graphs.state_graph import StateGraph
from creditflow.wrappers.records.group import Group, StateIndex, distinct
from creditflow.wrappers.records.trajectory import Turn

__all__ = ["Propagation", "RewardFlow", "released_rewards", "success_potential"]

_SMALLEST: Final = 1e-300  # whose inverse is finite
Propagation = Literal["success_hops", "mean_hops", "graph_network"]
MAX_SWEEPS = 1000  # as released


@register
@dataclass(frozen=True, kw_only=True)
class RewardFlow(MergingScheme, ReleasedOutcomeScheme):
    """A = a_act (q − mean) / F_norm over turns at the same state + a_traj A_traj, with q = R(s′) − R(s).

    R(s) = γ^d(s), where d is the number of hops to a success over the group's transitions, and R(s) = 0 if none is
    reachable (eqs. 2 to 4). Invalid transitions and those that do not change the state are pruned from the graph first.
    The mean and deviation at a state are those of its kept transitions, because Group(s) contains no others (eqs. 5 to 7).
    A turn whose transition was pruned is in no Group(s), so it gets the outcome advantage alone.

    Two rules are ours, because the paper does not specify them. A success that cannot be reached from a state is left
    out of its mean (table 11's formula would give R = 0 to every state that misses one of several). A success has d =
    0, although it reaches no other.

    Attributes:
        discount: γ.
        action_weight, trajectory_weight: a_act, a_traj.
        outcome_scale: "std" divides the outcome by its standard deviation, "none" does not.
        step_scale: F_norm, "std" or "none".
        propagation: "success_hops" is the paper's. With "mean_hops" (table 11) d is the mean over all successes. With
            "graph_network" R(s) is γ times the mean of R over the edges that leave s, which is what a graph network
            without weights to train computes (the paper discusses networks in appendix C.3, and gives none). With
            "first_seen_rewards" (released code) every node starts with the environment reward of the transition that
            first entered it, then V ← max(V, γ max V(next)). The last transition is then missing in episodes as long as
            the longest of the batch, which get the raw reward instead.
        pruning: which turns are not edges: "invalid" (paper: invalid, or without effect), "none" (table 5, "without
            pruning", where with text keys of raw observations an error message is a separate state), "self_loops"
            (released code for Sokoban, WebShop, Search) or "alfworld" (released ALFWorld manager: looking around and
            "Nothing happens" are skipped and bridged, which requires keys that are texts).
    """

    name = "rewardflow"
    source = "RewardFlow (arXiv 2603.18859) eqs. 2 to 9 and table 11. Released code: tmlr-group/RewardFlow @ 1cdead8"
    credit_needs = "a success"
    verification = "the paper, and numbers computed by the released code (release preset)"
    limitations = (
        "The potential depends on distance, not on the probability of success, so random transitions and aliased "
        "keys mislead it. Division by the deviation in each state makes small differences as large as decisive ones. "
        "Without this division (rewardflow_raw), keys that never repeat leave almost no credit."
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
    ranges = {"discount": "[0, 1]"}

    discount: float = 0.9
    action_weight: float = 1.0
    trajectory_weight: float = 1.0
    outcome_scale: Scale = "std"
    step_scale: Scale = "std"
    propagation: Literal["success_hops", "mean_hops", "graph_network", "first_seen_rewards"] = "success_hops"
    pruning: Literal["invalid", "none", "self_loops", "alfworld"] = "invalid"

    def __post_init__(self) -> None:
        """Check every parameter."""
        super().__post_init__()
        if self.pruning == "alfworld" and self.propagation != "first_seen_rewards":
            raise ConfigError(
                "rewardflow: pruning='alfworld' bridges skipped turns in the released propagation only; use "
                "pruning='invalid', or propagation='first_seen_rewards'"
            )

    @property
    def couples_groups(self) -> bool:
        """The released propagation depends on the longest episode of the batch."""
        return self.propagation == "first_seen_rewards"

    def assign(self, group: Group) -> Credit:
        """Score one group."""
        return self.assign_batch([group])[0]

    def assign_batch(self, groups: Sequence[Group]) -> list[Credit]:
        """Score many groups. The released propagation depends on the longest episode of the batch."""
        longest = max((int(np.diff(group.episode_index.offsets).max(initial=0)) for group in groups), default=0)
        return [self._assign(group, longest) for group in groups]

    def _assign(self, group: Group, longest: int) -> Credit:
        states = self.states(group)
        graph = StateGraph.from_group(group, key=self.key)
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
        # the released code compares all turns of a state, and lets the pruned ones differ
        edges = np.ones(len(pruned), np.bool_) if self.propagation == "first_seen_rewards" else ~pruned
        outcome, turn_part = self.outcome_part(group, scale=self.outcome_scale)
        penalties = self.penalties(group)
        compared = normalize(
            rewards - penalties,
            states.state,
            len(states.keys),
            scale=self.step_scale,
            std_eps=self.std_eps,
            sample=edges,
            magnitude=np.abs(after) + np.abs(before) + penalties,
            quantity="change of potential",
        )
        compared = np.where(edges, compared, 0.0)
        return Credit.of(
            group,
            outcome=self.trajectory_weight * outcome,
            step={
                "outcome, changed by the turn's own penalty": self.trajectory_weight * turn_part,
                "change of potential in the state": self.action_weight * compared,
            },
            rewards=rewards,
            aggregation="token_mean" if self.propagation == "first_seen_rewards" else "turn_mean",
            diagnostics={"step_advantage": compared, "pruned": pruned, **of_nodes(names, node_value=value)},
        )

    def _pruned(self, group: Group, graph: StateGraph) -> NDArray[np.bool_]:
        """bool (N,): turns whose transition is not an edge.

        A turn that ends the episode changes the state even if the key stays the same: its terminal node is not open.
        """
        if self.pruning == "none":
            return np.zeros(len(graph.source), np.bool_)
        self_loop: NDArray[np.bool_] = graph.source == graph.target
        return self_loop | ~group.arrays.valid if self.pruning == "invalid" else self_loop


def success_potential(graph: StateGraph, discount: float, propagation: Propagation) -> NDArray[np.float64]:
    """float64 (V,): R(s) in [0, 1], with 1 at a success and 0 where none is reachable.

    Args:
        graph: the group's graph, whose kept turns are the edges.
        discount: γ.
        propagation: "success_hops" for γ^d with d the number of edges to the nearest success, "mean_hops" for the same
            with d the mean over the reachable successes, or "graph_network" for γ times the mean of R over the edges
            that leave s.
    """
    if propagation == "graph_network":
        return _mean_aggregation(graph, discount)
    hops = graph.distances("hops") if propagation == "success_hops" else _mean_hops(graph)
    reached = np.isfinite(hops)
    return np.where(reached, discount ** np.where(reached, hops, 0.0), 0.0)


def _mean_hops(graph: StateGraph) -> NDArray[np.float64]:
    """float64 (V,): mean number of edges to the reachable goals, with 0 at a goal and inf where none is reachable."""
    edges, ones = graph.edges, np.ones(len(graph.edges.source))
    total, count = np.zeros(graph.size), np.zeros(graph.size)
    for goal in graph.goals:  # no edge leaves a goal, so each reaches only itself
        hops = shortest_distances(graph.size, edges.source, edges.target, ones, np.array([goal]))
        reached = np.isfinite(hops)
        total[reached] += hops[reached]
        count += reached
    return np.where(count > 0.0, total / np.maximum(count, 1.0), np.inf)


def _mean_aggregation(graph: StateGraph, discount: float) -> NDArray[np.float64]:
    """float64 (V,): the fixed point of R(s) = γ mean R(s′) over the E distinct edges (s, a, s′) that leave s, R = 1 at goals."""
    size, edges = graph.size, graph.edges
    live = graph.reachable() if discount > 0.0 else graph.distances("hops") == 0.0
    leave = live[edges.source]
    pairs, parallel = np.unique(
        edges.source[leave].astype(np.int64) * max(size, 1) + edges.target[leave], return_counts=True
    )
    source, target = np.divmod(pairs, max(size, 1))
    outcome = np.zeros(size)
    outcome[graph.goals] = 1.0
    # a discount is as if turns ended in failure: Σ R(s′) / (n + n (1/γ − 1)) = γ Σ R(s′) / n
    degree = np.bincount(source, parallel, minlength=size)
    ends = outcome + degree * (1.0 / max(discount, _SMALLEST) - 1.0)
    zero = np.zeros(size)
    return stationary_values(Backup(source, target, parallel, ends, outcome, 0.0, zero, zero, 0))


def released_rewards(
    group: Group, states: StateIndex, discount: float, longest: int, kept: NDArray[np.bool_] | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute node values and step rewards as the released code does.

    Args:
        group: the group.
        states: states of the group.
        discount: γ.
        longest: number of turns of the longest episode of the batch.
        kept: bool (N,), turns that are edges if they change the state, or None for the ALFWorld manager's rule, which
            bridges skipped turns.

    Returns:
        V, float64 (K,), one value per state key (0 outside the pruned graph), and V(s′) − V(s), float64 (N,), which is the
        raw reward for the last turn of an episode of maximum length.
    """
    arrays, index = group.arrays, group.episode_index
    seeds: dict[int, float] = {}
    size, edges = len(states.keys), list[int]()  # an edge from i to j has the code i · size + j
    missing = np.zeros(len(index.stored), np.bool_)
    for turns, (a, b) in zip(group.episodes, pairwise(index.offsets.tolist()), strict=True):
        if a == b:
            continue
        at = index.stored[a:b]
        nodes = [*states.state[at].tolist(), int(states.next_state[at[-1]])]
        entering = [0.0, *arrays.reward[at].tolist()]
        recorded = b - a < longest
        missing[b - 1] = not recorded
        steps = b - a if recorded else b - a - 1
        transitions = _bridged(turns, nodes, steps, states.keys) if kept is None else _moves(nodes, steps, kept[at])
        for origin, target in transitions:
            seeds.setdefault(nodes[origin], entering[origin])
            seeds.setdefault(nodes[target], entering[target])
            edges.append(nodes[origin] * size + nodes[target])
    value = _propagated(size, seeds, edges, discount)
    rewards = np.where(missing[index.own], arrays.reward, value[states.next_state] - value[states.state])
    return value, rewards


def _moves(nodes: list[int], steps: int, kept: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Positions (from, to) of the kept transitions that change the state."""
    for t in range(steps):
        if kept[t] and nodes[t] != nodes[t + 1]:
            yield t, t + 1


def _bridged(turns: Sequence[Turn], nodes: list[int], steps: int, keys: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    """Positions of the ALFWorld manager's edges: a run of skipped turns is bridged from the state it began in."""
    start: int | None = None  # first turn of the current run of skipped turns
    for t in range(steps):
        action = turns[t].action
        origin = t if start is None else start
        skipped = (
            action in ("inventory", "look")
            or "examine" in action
            or "Nothing happens" in keys[nodes[t + 1]]
            or nodes[t + 1] == nodes[origin]
            or nodes[t] == nodes[t + 1]
        )
        if skipped:
            start = origin
        else:
            yield origin, t + 1
            start = None


def _propagated(n: int, seeds: dict[int, float], edges: list[int], discount: float) -> NDArray[np.float64]:
    """Return the fixed point of sweeps V ← max(V, γ max over successors) from the seeds, in linear time except for the last step.

    Positive values propagate back along shortest paths, largest first. A node that reaches only seeds of 0 or less gets 0
    if it can reach a 0. The remaining nodes reach negative seeds alone, where a longer path is better: without cycles
    one pass from the leaves is exact, cycles are swept as in the released code.
    """
    value = np.zeros(n)
    if not edges:
        return value
    inside = np.fromiter(seeds, np.int64, len(seeds))
    value[inside] = np.fromiter(seeds.values(), np.float64, len(seeds))
    source, target = np.divmod(distinct(np.array(edges, np.int64))[0], n)
    before: list[list[int]] = [[] for _ in range(n)]
    for origin, end in zip(source.tolist(), target.tolist(), strict=True):
        before[end].append(origin)
    best = value.tolist()
    # larger first; a zero only raises nodes below zero, so one search covers both
    queue = [(-v, node) for node, v in enumerate(best) if v >= 0.0 and node in seeds]
    heapq.heapify(queue)
    while queue:
        v, node = heapq.heappop(queue)
        if -v < best[node]:
            continue
        propagated = discount * best[node]
        for origin in before[node]:
            if propagated > best[origin]:
                best[origin] = propagated
                heapq.heappush(queue, (-propagated, origin))
    return _below_zero(np.array(best), source, target, before, discount)


def _below_zero(
    value: NDArray[np.float64],
    source: NDArray[np.int64],
    target: NDArray[np.int64],
    before: list[list[int]],
    discount: float,
) -> NDArray[np.float64]:
    """Propagate among nodes with negative values, all of whose paths lead to negative seeds."""
    negative = value < 0.0
    if not negative.any():
        return value
    pending = np.bincount(source[negative[source]], minlength=len(value)).tolist()  # successors not yet final
    best = value.tolist()
    ready = [node for node in np.flatnonzero(negative).tolist() if not pending[node]]
    while ready:
        node = ready.pop()
        negative[node] = False
        for origin in before[node]:
            best[origin] = max(best[origin], discount * best[node])
            pending[origin] -= 1
            if not pending[origin]:
                ready.append(origin)
    value = np.array(best)
    if negative.any():  # cycles, and nodes that lead to them
        source, target = source[negative[source]], target[negative[source]]
        for _ in range(MAX_SWEEPS):
            swept = value.copy()
            np.maximum.at(swept, source, discount * value[target])
            if np.array_equal(swept, value):
                break
            value = swept
    return value
