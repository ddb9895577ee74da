"""RewardFlow's propagation as released, for parity with its published numbers.

Differences from the paper: propagation starts from environment rewards, of which the first transition that enters a node
sets the node's; the last transition exists only in episodes shorter than the longest of the batch; on ALFWorld, runs of
turns that only look around are bridged.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers.records.arrays import StateIndex, distinct
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Turn

__all__ = ["released_rewards"]

MAX_SWEEPS = 1000  # as released


def released_rewards(
    group: Group,
    states: StateIndex,
    discount: float,
    longest: int,
    kept: NDArray[np.bool_] | None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute node values and step rewards as the released code does.

    Args:
        group: the group.
        states: states of the group.
        discount: γ.
        longest: number of turns of the longest episode of the batch.
        kept: bool (N,), turns that are edges if they change the state; None for the ALFWorld manager's rule, which
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
        for here, there in transitions:
            seeds.setdefault(nodes[here], entering[here])
            seeds.setdefault(nodes[there], entering[there])
            edges.append(nodes[here] * size + nodes[there])
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
    """Return the fixed point of sweeps V ← max(V, γ max over successors) from the seeds; linear, except for the last step.

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
    for here, there in zip(source.tolist(), target.tolist(), strict=True):
        before[there].append(here)
    best = value.tolist()
    # larger first; a zero only raises nodes below zero, so one search covers both
    queue = [(-v, node) for node, v in enumerate(best) if v >= 0.0 and node in seeds]
    heapq.heapify(queue)
    while queue:
        v, node = heapq.heappop(queue)
        if -v < best[node]:
            continue
        propagated = discount * best[node]
        for here in before[node]:
            if propagated > best[here]:
                best[here] = propagated
                heapq.heappush(queue, (-propagated, here))
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
        for here in before[node]:
            best[here] = max(best[here], discount * best[node])
            pending[here] -= 1
            if not pending[here]:
                ready.append(here)
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
