"""RewardFlow's potential of states: how success is propagated backwards through a group's graph.

The paper compares the nearest success with the mean over all (its table 11), and only discusses graph networks (its appendix C.3),
which it does not use because they need labelled graphs and training. What is left of one without training is its aggregation.
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers.credit.states.mean_backup import Backup, stationary_values
from creditflow.wrappers.graphs.distances import shortest_distances
from creditflow.wrappers.graphs.state_graph import StateGraph

__all__ = ["Propagation", "success_potential"]

_SMALLEST: Final = 1e-300  # whose inverse is finite

Propagation = Literal["success_hops", "mean_hops", "graph_network"]


def success_potential(graph: StateGraph, discount: float, propagation: Propagation) -> NDArray[np.float64]:
    """float64 (V,): R(s) in [0, 1]; 1 at a success, 0 where none is reachable.

    Args:
        graph: the group's graph; its kept turns are the edges.
        discount: γ.
        propagation: "success_hops": γ^d, d the number of edges to the nearest success; "mean_hops": the same with d the mean over
            the successes that are reachable; "graph_network": γ times the mean of R over the edges that leave s.
    """
    if propagation == "graph_network":
        return _mean_aggregation(graph, discount)
    hops = graph.distances("hops") if propagation == "success_hops" else _mean_hops(graph)
    reached = np.isfinite(hops)
    return np.where(reached, discount ** np.where(reached, hops, 0.0), 0.0)


def _mean_hops(graph: StateGraph) -> NDArray[np.float64]:
    """float64 (V,): mean number of edges to the reachable goals; 0 at a goal, inf where none is reachable."""
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
