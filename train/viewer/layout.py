"""Layout of a state graph: layers by distance from the start, each ordered so that few edges cross."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers.graphs.state_graph import StateGraph

__all__ = ["layered_layout"]

SWEEPS = 4  # passes over all layers, forwards and backwards in turn


def layered_layout(graph: StateGraph, starts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Coordinates in [0, 1]², float64 (V, 2).

    x is the minimum number of turns from a start; within a layer nodes are sorted by the mean y of their neighbours in the
    adjacent layer (barycentre heuristic, a few sweeps).

    Args:
        graph: graph to draw.
        starts: int64, indices of the initial states.
    """
    after: list[list[int]] = [[] for _ in range(graph.size)]
    before: list[list[int]] = [[] for _ in range(graph.size)]
    for source, target in zip(graph.source.tolist(), graph.target.tolist(), strict=True):
        after[source].append(target)
        before[target].append(source)
    depth = [-1] * graph.size
    queue = deque(starts.tolist())
    for node in queue:
        depth[node] = 0
    while queue:
        node = queue.popleft()
        for target in after[node]:
            if depth[target] < 0:
                depth[target] = depth[node] + 1
                queue.append(target)
    deepest = max(depth, default=0)
    layers: list[list[int]] = [[] for _ in range(deepest + 1)]
    for node, d in enumerate(depth):
        layers[max(d, 0)].append(node)
    height = np.zeros(graph.size)
    for sweep in range(SWEEPS):
        neighbours = before if sweep % 2 == 0 else after
        for layer in layers if sweep % 2 == 0 else layers[::-1]:
            layer.sort(key=lambda node: _mean_height(neighbours[node], height, node))
            for index, node in enumerate(layer):
                height[node] = (index + 0.5) / len(layer)
    x = np.array([max(d, 0) for d in depth]) / max(deepest, 1)
    return np.stack([x, height], axis=1)


def _mean_height(neighbours: list[int], height: NDArray[np.float64], node: int) -> float:
    return float(np.mean(height[neighbours])) if neighbours else float(height[node])
