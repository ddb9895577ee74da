"""The state graph of a group: distinct states as nodes, observed transitions as edges, ends typed.

Inside, everything is an array, and construction and distances are linear in turns (shortest paths with unequal costs:
E log V). ``to_networkx`` hands the graph to everybody else's tools.

Node types. A state that somebody acted in, or that a rollout was cut in by a limit, is OPEN: a limit says nothing
about the state it fell on. The end of a success is a GOAL node, a failed end a FAILED node, and these never merge with
open nodes of the same key. With ``truncated="separate"`` cut ends are nodes of their own too.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import unknown_name_error
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.stop_reasons import FAILED, GOAL, OPEN, TRUNCATED

__all__ = ["KIND_NAMES", "Edges", "GraphStatistics", "StateGraph", "shortest_distances"]

KIND_NAMES = {OPEN: "open", GOAL: "goal", FAILED: "failed", TRUNCATED: "truncated"}


def shortest_distances(
    n: int,
    source: NDArray[np.integer[Any]],
    target: NDArray[np.integer[Any]],
    cost: NDArray[np.float64],
    goals: NDArray[np.integer[Any]],
) -> NDArray[np.float64]:
    """Least cost from every node to the nearest goal, by search from the goals over reversed edges.

    Args:
        n: number of nodes.
        source, target: (E,), the edges.
        cost: float64 (E,), > 0; breadth-first search if all are equal, Dijkstra's algorithm else.
        goals: node numbers.

    Returns:
        float64 (n,); 0 at goals, inf where no goal can be reached.
    """
    distance = [np.inf] * n
    for goal in goals.tolist():
        distance[goal] = 0.0
    order = np.argsort(target, kind="stable")
    first = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(target, minlength=n), out=first[1:])
    starts, before, price = first.tolist(), source[order].tolist(), cost[order].tolist()
    if len(cost) == 0 or (cost == cost[0]).all():
        step = price[0] if price else 1.0
        queue = deque(goals.tolist())
        while queue:
            node = queue.popleft()
            reached = distance[node] + step
            for i in range(starts[node], starts[node + 1]):
                if distance[before[i]] == np.inf:
                    distance[before[i]] = reached
                    queue.append(before[i])
    else:
        heap = [(0.0, goal) for goal in goals.tolist()]
        while heap:
            d, node = heapq.heappop(heap)
            if d > distance[node]:
                continue
            for i in range(starts[node], starts[node + 1]):
                reached = d + price[i]
                if reached < distance[before[i]]:
                    distance[before[i]] = reached
                    heapq.heappush(heap, (reached, before[i]))
    return np.array(distance, np.float64)


@dataclass(frozen=True, slots=True)
class GraphStatistics:
    """What the papers report about their graphs (RewardFlow table 9, GiGPO and GraphGPO figures).

    Attributes:
        turns: N.
        nodes, edges: of the graph; an edge is a distinct (state, action, next state).
        unique_states: distinct states acted in.
        singleton_fraction: share of those that were acted in once (no step comparison possible).
        goals: goal nodes.
        connected_fraction: share of turns whose state can reach a goal on observed edges.
        conflicts: (state, action) pairs followed by different states (aliasing or chance).
        valid_fraction, effective_fraction: of turns.
    """

    turns: int
    nodes: int
    edges: int
    unique_states: int
    singleton_fraction: float
    goals: int
    connected_fraction: float
    conflicts: int
    valid_fraction: float
    effective_fraction: float


class Edges(NamedTuple):
    """The E distinct kept edges of a graph.

    Attributes:
        source, action, target: int (E,).
        cost: float64 (E,), the least seen.
        seen: int (E,), how often each was traversed.
    """

    source: NDArray[np.integer[Any]]
    action: NDArray[np.integer[Any]]
    target: NDArray[np.integer[Any]]
    cost: NDArray[np.float64]
    seen: NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class StateGraph:
    """States and observed transitions of a group.

    Attributes:
        keys: the V nodes' state keys.
        kind: int8 (V,), OPEN, GOAL, FAILED or TRUNCATED.
        actions: action keys.
        source, target: int32 (N,), the nodes of each turn's transition.
        action: int32 (N,), into ``actions``.
        cost: float64 (N,), > 0.
        kept: bool (N,), False for turns left out of the edges (pruned); their nodes stay.
    """

    keys: tuple[str, ...]
    kind: NDArray[np.int8]
    actions: tuple[str, ...]
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    action: NDArray[np.int32]
    cost: NDArray[np.float64]
    kept: NDArray[np.bool_]
    _group: Group

    @classmethod
    def from_group(
        cls,
        group: Group,
        *,
        key: Literal["state", "text"] = "state",
        truncated: Literal["merge", "separate"] = "merge",
        failed: Literal["merge", "separate"] = "separate",
        kept: NDArray[np.bool_] | None = None,
        labels: NDArray[np.integer[Any]] | None = None,
        goal: NDArray[np.bool_] | None = None,
    ) -> StateGraph:
        """Build the graph.

        Args:
            group: the rollouts of one task.
            key: which key makes a state.
            truncated: "merge" lets a cut rollout end in the ordinary node of its state; "separate" gives it its own.
            failed: the same for ends in failure; released code merges them.
            kept: bool (N,), which turns become edges; default all.
            labels: int (K,), for each of the group's K keys the number of the key that represents it (similar states
                merged); default each itself.
            goal: bool (G,), which trajectories end in a goal; default those the environment calls successes.
        """
        arrays = group.arrays
        states = group.states(key)
        state, following = states.state, states.next_state
        if labels is not None:
            state, following = labels[state].astype(np.int32), labels[following].astype(np.int32)
        end = arrays.end
        if goal is not None:
            end = np.where(goal, GOAL, np.where(end == GOAL, TRUNCATED, end)).astype(np.int8)
        for name, choice, kind in (("truncated", truncated, TRUNCATED), ("failed", failed, FAILED)):
            if choice == "merge":
                end = np.where(end == kind, OPEN, end).astype(np.int8)
            elif choice != "separate":
                raise unknown_name_error(f"value of {name}", str(choice), ["merge", "separate"])
        kind_after = np.where(arrays.last, end[arrays.trajectory], OPEN)
        # a node is a (key, kind) pair, numbered by key then kind
        codes = np.concatenate([state.astype(np.int64) * 4 + OPEN, following.astype(np.int64) * 4 + kind_after])
        table, inverse = np.unique(codes, return_inverse=True)
        n = len(state)
        return cls(
            keys=tuple(states.keys[i] for i in (table >> 2).tolist()),
            kind=(table & 3).astype(np.int8),
            actions=arrays.actions,
            source=inverse[:n].astype(np.int32),
            target=inverse[n:].astype(np.int32),
            action=arrays.action,
            cost=arrays.cost,
            kept=np.ones(n, np.bool_) if kept is None else kept,
            _group=group,
        )

    @property
    def size(self) -> int:
        """V, the number of nodes."""
        return len(self.keys)

    @cached_property
    def edges(self) -> Edges:
        """Distinct kept edges."""
        source, action, target = self.source[self.kept], self.action[self.kept], self.target[self.kept]
        code = (source.astype(np.int64) * max(len(self.actions), 1) + action) * max(self.size, 1) + target
        _, first, inverse, count = np.unique(code, return_index=True, return_inverse=True, return_counts=True)
        least = np.full(len(first), np.inf)
        np.minimum.at(least, inverse, self.cost[self.kept])
        return Edges(source[first], action[first], target[first], least, count)

    @cached_property
    def goals(self) -> NDArray[np.int64]:
        """Numbers of the goal nodes."""
        return np.flatnonzero(self.kind == GOAL)

    def distances(self, weight: Literal["cost", "hops"] = "cost") -> NDArray[np.float64]:
        """float64 (V,): least cost (or number of edges) to the nearest goal; inf where none can be reached."""
        edges = self.edges
        cost = edges.cost if weight == "cost" else np.ones(len(edges.cost))
        if weight not in ("cost", "hops"):
            raise unknown_name_error("weight", str(weight), ["cost", "hops"])
        return shortest_distances(self.size, edges.source, edges.target, cost, self.goals)

    def reachable(self) -> NDArray[np.bool_]:
        """bool (V,): a goal can be reached on observed edges."""
        return np.isfinite(self.distances("hops"))

    @cached_property
    def visits(self) -> NDArray[np.int64]:
        """int64 (V,): how many turns began in each node."""
        return np.bincount(self.source, minlength=self.size)

    def centrality(self, kind: Literal["betweenness", "closeness", "degree"]) -> NDArray[np.float64]:
        """float64 (V,): networkx's centrality of the graph without parallel edges."""
        measures: dict[str, Callable[[nx.DiGraph[int]], dict[int, float]]] = {
            "betweenness": nx.betweenness_centrality,
            "closeness": nx.closeness_centrality,
            "degree": nx.degree_centrality,
        }
        if kind not in measures:
            raise unknown_name_error("centrality", str(kind), measures)
        graph: nx.DiGraph[int] = nx.DiGraph()
        graph.add_nodes_from(range(self.size))
        graph.add_edges_from(zip(self.edges.source.tolist(), self.edges.target.tolist(), strict=True))
        scores = measures[kind](graph)
        return np.array([scores[i] for i in range(self.size)], np.float64)

    def statistics(self) -> GraphStatistics:
        """The papers' graph statistics."""
        edges = self.edges
        acted = self.visits[self.visits > 0]
        pairs = edges.source.astype(np.int64) * max(len(self.actions), 1) + edges.action
        _, followers = np.unique(pairs, return_counts=True)
        arrays = self._group.arrays
        n = len(self.source)
        return GraphStatistics(
            turns=n,
            nodes=self.size,
            edges=len(edges.source),
            unique_states=len(acted),
            singleton_fraction=float((acted == 1).mean()) if len(acted) else 0.0,
            goals=len(self.goals),
            connected_fraction=float(self.reachable()[self.source].mean()) if n else 0.0,
            conflicts=int((followers > 1).sum()),
            valid_fraction=float(arrays.valid.mean()) if n else 0.0,
            effective_fraction=float(arrays.effective.mean()) if n else 0.0,
        )

    def to_networkx(self) -> nx.MultiDiGraph[int]:
        """The graph for networkx: nodes carry key, kind, visits, distance; edges action, cost, count.

        Edge keys are the actions.
        """
        graph: nx.MultiDiGraph[int] = nx.MultiDiGraph()
        distance = self.distances()
        for i, name in enumerate(self.keys):
            graph.add_node(
                i,
                key=name,
                kind=KIND_NAMES[int(self.kind[i])],
                visits=int(self.visits[i]),
                distance=float(distance[i]),
            )
        for s, a, t, c, k in zip(*(column.tolist() for column in self.edges), strict=True):
            graph.add_edge(s, t, key=self.actions[a], action=self.actions[a], cost=c, count=k)
        return graph
