"""Shortest distances to the nearest goal of a directed graph, by search from the goals over reversed edges."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["hop_distances", "shortest_distances"]


def shortest_distances(
    n: int,
    source: NDArray[np.integer[Any]],
    target: NDArray[np.integer[Any]],
    cost: NDArray[np.float64],
    goals: NDArray[np.integer[Any]],
) -> NDArray[np.float64]:
    """Minimum cost from every node to the nearest goal, by search from the goals over reversed edges.

    Args:
        n: number of nodes.
        source, target: (E,), the edges.
        cost: float64 (E,), > 0; breadth-first search if all are equal, else Dijkstra's algorithm.
        goals: indices of the goal nodes.

    Returns:
        float64 (n,); 0 at goals, inf where no goal can be reached.
    """
    order = np.argsort(target, kind="stable")
    first = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(target, minlength=n), out=first[1:])
    if len(cost) == 0 or (cost == cost[0]).all():
        step = float(cost[0]) if len(cost) else 1.0
        return hop_distances(n, source[order], first, goals.tolist(), step=step)
    distance = [np.inf] * n
    for goal in goals.tolist():
        distance[goal] = 0.0
    starts, before, costs = first.tolist(), source[order].tolist(), cost[order].tolist()
    heap = [(0.0, goal) for goal in goals.tolist()]
    while heap:
        d, node = heapq.heappop(heap)
        if d > distance[node]:
            continue
        for i in range(starts[node], starts[node + 1]):
            reached = d + costs[i]
            if reached < distance[before[i]]:
                distance[before[i]] = reached
                heapq.heappush(heap, (reached, before[i]))
    return np.array(distance, np.float64)


def hop_distances(
    n: int, source: NDArray[np.integer[Any]], first: NDArray[np.int64], goals: list[int], *, step: float = 1.0
) -> NDArray[np.float64]:
    """Minimum cost from every node to the nearest goal where every edge costs the same, by breadth-first search.

    Args:
        n: number of nodes.
        source: (E,), source nodes of the edges, sorted by target node.
        first: int64 (n+1,); edges ``first[i]:first[i+1]`` end in node i.
        goals: indices of the goal nodes.
        step: cost of an edge.

    Returns:
        float64 (n,); 0 at goals, inf where no goal can be reached.
    """
    distance = [np.inf] * n
    for goal in goals:
        distance[goal] = 0.0
    starts, before, unseen = first.tolist(), source.tolist(), np.inf
    queue = list(goals)
    reachable = len(queue) + len(set(before).difference(queue))  # upper bound: the goals and all source nodes
    for node in queue:  # grows while it is iterated
        reached = distance[node] + step
        for predecessor in before[starts[node] : starts[node + 1]]:
            if distance[predecessor] == unseen:
                distance[predecessor] = reached
                queue.append(predecessor)
        if len(queue) == reachable:
            break
    return np.array(distance, np.float64)
