"""The state graph of a group: distinct states as nodes, observed transitions as edges, typed terminal nodes.

The graph is stored in arrays, and construction and distances are linear in turns (shortest paths with unequal costs:
E log V). ``to_networkx`` and ``from_networkx`` exchange it with other tools.

Node types. A state in which an action was taken, or in which a trajectory was truncated, is OPEN: truncation carries no
information about the state. The end of a success is a GOAL node, that of a failure a FAILED node, and these never merge
with open nodes of the same key. With ``truncated="separate"`` truncated ends have nodes of their own too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, short_repr, unknown_name_error
from creditflow.wrappers.graphs.distances import shortest_distances
from creditflow.wrappers.records.group import Group, number_codes
from creditflow.wrappers.records.stop_reasons import FAILED, GOAL, OPEN, TRUNCATED
from creditflow.wrappers.records.trajectory import is_number

__all__ = ["KIND_NAMES", "Edges", "GraphStatistics", "StateGraph"]

KIND_NAMES = {OPEN: "open", GOAL: "goal", FAILED: "failed", TRUNCATED: "truncated"}


@dataclass(frozen=True, slots=True)
class GraphStatistics:
    """Graph statistics that the papers report (RewardFlow table 9, figures of GiGPO and GraphGPO).

    Attributes:
        turns: N.
        nodes, edges: number of nodes and of edges, which are distinct (state, action, next state) triples.
        unique_states: number of distinct states in which an action was taken.
        singleton_fraction: fraction of those with a single turn, which cannot be compared with another.
        goals: number of goal nodes.
        connected_fraction: fraction of turns from whose state a goal is reachable on observed edges.
        conflicts: number of (state, action) pairs followed by different states (aliasing or stochastic transitions).
        valid_fraction, effective_fraction: fraction of turns that are valid, effective.
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
        cost: float64 (E,), minimum observed cost.
        seen: int (E,), number of traversals.
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
        keys: state keys of the V nodes.
        kind: int8 (V,), OPEN, GOAL, FAILED or TRUNCATED.
        actions: action keys.
        source, target: int32 (N,), nodes of each turn's transition.
        action: int32 (N,), index into ``actions``.
        cost: float64 (N,), > 0.
        kept: bool (N,), False for turns pruned from the edges; their nodes stay.
        valid, effective: bool (N,), of each turn.
    """

    keys: tuple[str, ...]
    kind: NDArray[np.int8]
    actions: tuple[str, ...]
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    action: NDArray[np.int32]
    cost: NDArray[np.float64]
    kept: NDArray[np.bool_]
    valid: NDArray[np.bool_]
    effective: NDArray[np.bool_]

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
        """Build the graph of a group.

        Args:
            group: trajectories of one task.
            key: key that identifies a state.
            truncated: "merge": a truncated trajectory ends in the open node of its state; "separate": in its own node.
            failed: the same for failures; released code merges them.
            kept: bool (N,), turns that become edges; default all.
            labels: int (K,), for each of the group's K keys the index of the key that represents it (merged states);
                default its own.
            goal: bool (G,), trajectories that end in a goal; default the successes.

        Raises:
            TrajectoryError: ``key="text"`` but the log has no text keys.
            ConfigError: an option has an unknown value.
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
        # a node is a (key, kind) pair, in order of key, then kind
        codes = np.concatenate([state.astype(np.int64) * 4 + OPEN, following.astype(np.int64) * 4 + kind_after])
        present = np.zeros(4 * len(states.keys), np.bool_)
        present[codes] = True
        table, inverse = np.flatnonzero(present), (np.cumsum(present) - 1)[codes]
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
            valid=arrays.valid,
            effective=arrays.effective,
        )

    @classmethod
    def from_networkx(cls, graph: nx.DiGraph[Any]) -> StateGraph:
        """Build a graph from one of networkx, such as ``to_networkx`` returns or as drawn by hand.

        An edge stands for as many turns as its ``count``.

        >>> drawn = nx.DiGraph([("hall", "study"), ("study", "safe")])
        >>> drawn.nodes["safe"]["kind"] = "goal"
        >>> graph = StateGraph.from_networkx(drawn)
        >>> dict(zip(graph.keys, graph.distances().tolist()))
        {'hall': 2.0, 'study': 1.0, 'safe': 0.0}

        Args:
            graph: nodes may have ``key`` (default their name) and ``kind`` ("open" by default, "goal", "failed",
                "truncated"); edges ``action`` (default their target's key), ``cost`` (default 1) and ``count`` (default 1).

        Raises:
            ConfigError: an undirected graph, an unknown kind, two nodes of one key and kind, or a cost or count that is not
                positive.
        """
        if not graph.is_directed():
            raise ConfigError("a state graph is directed: give a DiGraph or a MultiDiGraph")
        keys = {node: str(data.get("key", node)) for node, data in graph.nodes(data=True)}
        kinds = {node: _kind_of(data.get("kind", "open")) for node, data in graph.nodes(data=True)}
        if len({(keys[node], kinds[node]) for node in keys}) < len(keys):
            raise ConfigError("two nodes have the same key and the same kind: a state is one node")
        number = {node: i for i, node in enumerate(keys)}
        actions: dict[str, int] = {}
        rows: list[tuple[int, int, int, float]] = []
        for source, target, data in graph.edges(data=True):
            cost, count = data.get("cost", 1.0), data.get("count", 1)
            if not (is_number(cost) and cost > 0.0 and type(count) is int and count > 0):
                raise ConfigError(
                    f"edge {keys[source]!r} to {keys[target]!r}: cost must be positive and finite and count a positive integer, "
                    f"got {short_repr(cost)} and {short_repr(count)}"
                )
            code = actions.setdefault(str(data.get("action", keys[target])), len(actions))
            rows += [(number[source], code, number[target], float(cost))] * count
        every = np.ones(len(rows), np.bool_)
        return cls(
            keys=tuple(keys.values()),
            kind=np.array(list(kinds.values()), np.int8),
            actions=tuple(actions),
            source=np.array([row[0] for row in rows], np.int32),
            target=np.array([row[2] for row in rows], np.int32),
            action=np.array([row[1] for row in rows], np.int32),
            cost=np.array([row[3] for row in rows], np.float64),
            kept=every,
            valid=every,
            effective=every,
        )

    @property
    def size(self) -> int:
        """V, the number of nodes."""
        return len(self.keys)

    @cached_property
    def edges(self) -> Edges:
        """The distinct kept edges."""
        source, action, target = self.source[self.kept], self.action[self.kept], self.target[self.kept]
        code = (source.astype(np.int64) * max(len(self.actions), 1) + action) * max(self.size, 1) + target
        codes, inverse = number_codes(code)
        least = np.full(len(codes), np.inf)
        np.minimum.at(least, inverse, self.cost[self.kept])
        pair, target = np.divmod(codes, max(self.size, 1))
        source, action = np.divmod(pair, max(len(self.actions), 1))
        return Edges(source, action, target, least, np.bincount(inverse, minlength=len(codes)))

    @cached_property
    def goals(self) -> NDArray[np.int64]:
        """Indices of the goal nodes."""
        return np.flatnonzero(self.kind == GOAL)

    def distances(self, weight: Literal["cost", "hops"] = "cost") -> NDArray[np.float64]:
        """float64 (V,): minimum cost (or number of edges) to the nearest goal; inf where none is reachable."""
        edges = self.edges
        cost = edges.cost if weight == "cost" else np.ones(len(edges.cost))
        if weight not in ("cost", "hops"):
            raise unknown_name_error("weight", str(weight), ["cost", "hops"])
        return shortest_distances(self.size, edges.source, edges.target, cost, self.goals)

    def reachable(self) -> NDArray[np.bool_]:
        """bool (V,): whether a goal is reachable on observed edges."""
        return np.isfinite(self.distances("hops"))

    @cached_property
    def visits(self) -> NDArray[np.int64]:
        """int64 (V,): number of turns that start in each node."""
        return np.bincount(self.source, minlength=self.size)

    def statistics(self) -> GraphStatistics:
        """Compute the papers' graph statistics."""
        edges = self.edges
        visits = self.visits[self.visits > 0]
        pairs = edges.source.astype(np.int64) * max(len(self.actions), 1) + edges.action
        _, followers = np.unique(pairs, return_counts=True)
        n = len(self.source)
        return GraphStatistics(
            turns=n,
            nodes=self.size,
            edges=len(edges.source),
            unique_states=len(visits),
            singleton_fraction=float((visits == 1).mean()) if len(visits) else 0.0,
            goals=len(self.goals),
            connected_fraction=float(self.reachable()[self.source].mean()) if n else 0.0,
            conflicts=int((followers > 1).sum()),
            valid_fraction=float(self.valid.mean()) if n else 0.0,
            effective_fraction=float(self.effective.mean()) if n else 0.0,
        )

    def to_networkx(self) -> nx.MultiDiGraph[int]:
        """Convert to networkx: nodes have key, kind, visits and distance, edges have action, cost and count.

        Edge keys are the actions.
        """
        graph: nx.MultiDiGraph[int] = nx.MultiDiGraph()
        distance = self.distances()
        for i, name in enumerate(self.keys):
            graph.add_node(
                i, key=name, kind=KIND_NAMES[int(self.kind[i])], visits=int(self.visits[i]), distance=float(distance[i])
            )
        for s, a, t, c, k in zip(*(column.tolist() for column in self.edges), strict=True):
            graph.add_edge(s, t, key=self.actions[a], action=self.actions[a], cost=c, count=k)
        return graph


def _kind_of(name: Any) -> int:
    """The number of a kind of node."""
    numbers = {word: number for number, word in KIND_NAMES.items()}
    if name not in numbers:
        raise unknown_name_error("kind of node", str(name), numbers)
    return numbers[name]
