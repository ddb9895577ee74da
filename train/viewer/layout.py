"""Where the nodes of a state graph are drawn: in layers by distance from the start, ordered to cross few edges."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers.graphs.state_graph import StateGraph

__all__ = ["layered_layout"]

SWEEPS = 4


def layered_layout(graph: StateGraph, starts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Coordinates in [0, 1]², float64 (V, 2).

    x is the least number of turns from a start; within a layer nodes are sorted by the mean height of their
    neighbours in the layer before (barycentre heuristic, a few sweeps).

    Args:
        graph: what to draw.
        starts: node numbers of first states.
    """
    after: list[list[int]] = [[] for _ in range(graph.size)]
    before: list[list[int]] = [[] for _ in range(graph.size)]
    for here, there in zip(graph.source.tolist(), graph.target.tolist(), strict=True):
        after[here].append(there)
        before[there].append(here)
    depth = [-1] * graph.size
    queue = deque(starts.tolist())
    for node in queue:
        depth[node] = 0
    while queue:
        node = queue.popleft()
        for there in after[node]:
            if depth[there] < 0:
                depth[there] = depth[node] + 1
                queue.append(there)
    deepest = max(depth, default=0)
    layers: list[list[int]] = [[] for _ in range(deepest + 1)]
    for node, d in enumerate(depth):
        layers[max(d, 0)].append(node)
    height = np.zeros(graph.size)
    for sweep in range(SWEEPS):
        near = before if sweep % 2 == 0 else after
        for layer in layers if sweep % 2 == 0 else layers[::-1]:
            layer.sort(key=lambda node: _mean_height(near[node], height, node))
            for place, node in enumerate(layer):
                height[node] = (place + 0.5) / len(layer)
    across = np.array([max(d, 0) for d in depth]) / max(deepest, 1)
    return np.stack([across, height], axis=1)


def _mean_height(neighbours: list[int], height: NDArray[np.float64], node: int) -> float:
    return float(np.mean(height[neighbours])) if neighbours else float(height[node])
