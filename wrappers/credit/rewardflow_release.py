"""RewardFlow's released propagation, kept for parity with its published numbers.

Differences from the paper: seeds are environment rewards, the first one that enters a node wins; the last transition
exists only for episodes shorter than the longest of the batch; on ALFWorld, runs of looking around are bridged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers.records import Group, Trajectory

__all__ = ["released_rewards"]

MAX_SWEEPS = 1000  # as released; a fixed point is usually reached long before


def released_rewards(
    group: Group,
    key: Literal["state", "text"],
    pruning: str,
    discount: float,
    longest: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Node values and action rewards of the released code.

    Args:
        group: the rollouts.
        key: which key makes a state.
        pruning: "alfworld" bridges skipped turns; anything else drops self-loops only.
        discount: γ.
        longest: turns of the longest episode in the whole batch.

    Returns:
        V, float64 (K,), one value per state key (0 outside the pruned graph), and V(s′) − V(s), float64 (N,), with the
        raw reward for the last turn of a longest episode.
    """
    states, arrays = group.states(key), group.arrays
    seeds: dict[int, float] = {}
    edges: list[tuple[int, int]] = []
    unrecorded = np.zeros(len(group.turns), np.bool_)
    for i, trajectory in enumerate(group.trajectories):
        a, b = int(arrays.offsets[i]), int(arrays.offsets[i + 1])
        if a == b:
            continue
        nodes = [*states.state[a:b].tolist(), int(states.next_state[b - 1])]
        entering = [0.0, *arrays.reward[a:b].tolist()]
        recorded = b - a < longest
        unrecorded[b - 1] = not recorded
        steps = b - a if recorded else b - a - 1
        walk = _bridged(trajectory, nodes, steps, states.keys) if pruning == "alfworld" else _moves(nodes, steps)
        for here, there in walk:
            seeds.setdefault(nodes[here], entering[here])
            seeds.setdefault(nodes[there], entering[there])
            edges.append((nodes[here], nodes[there]))
    value = _sweep(len(states.keys), seeds, edges, discount)
    rewards = np.where(unrecorded, arrays.reward, value[states.next_state] - value[states.state])
    return value, rewards


def _moves(nodes: list[int], steps: int) -> Iterator[tuple[int, int]]:
    """Positions (from, to) of the transitions that change the state."""
    for t in range(steps):
        if nodes[t] != nodes[t + 1]:
            yield t, t + 1


def _bridged(trajectory: Trajectory, nodes: list[int], steps: int, keys: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    """Positions of the ALFWorld manager's edges: a skipped run is bridged from the state it began in."""
    start: int | None = None  # where the present run of skipped turns began
    for t in range(steps):
        action = trajectory.turns[t].action
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


def _sweep(n: int, seeds: dict[int, float], edges: list[tuple[int, int]], discount: float) -> NDArray[np.float64]:
    """V ← max(V, γ max over successors), synchronously, until nothing changes."""
    value = np.zeros(n)
    if not edges:
        return value
    inside = np.fromiter(seeds, np.int64, len(seeds))
    value[inside] = np.fromiter(seeds.values(), np.float64, len(seeds))
    source, target = np.unique(np.array(edges, np.int64), axis=0).T
    for _ in range(MAX_SWEEPS):
        swept = value.copy()
        np.maximum.at(swept, source, discount * value[target])
        if np.array_equal(swept, value):
            break
        value = swept
    return value
