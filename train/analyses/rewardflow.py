"""Analysis of RewardFlow: the size of the groups' state graphs, and how often rollouts repeat each other's states.

Graphs are the paper's: distinct states and (state, action, next state) edges of a group, without invalid or ineffective
transitions. Unique and total states by group size (its figure 4, eq. 1) are exact means over all sub-groups of g of the G
rollouts: a state that m rollouts visit is missing from C(G − m, g) of the C(G, g) sub-groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from pathlib import Path
from typing import Any, Final, Literal

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from creditflow.envs.sums import sum_in_order
from creditflow.train.analyses.finding import Finding, NotDefined, Table, decimals, percent
from creditflow.train.bench.report.figures import COLOURS, new_figure, save_figure, tidy
from creditflow.wrappers.graphs.state_graph import StateGraph
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.stop_reasons import OPEN

__all__ = ["NEEDS", "SOURCE", "analyse", "draw", "expected_unique", "graph_row"]

SOURCE: Final = "graph size and repeated states, RewardFlow (arXiv 2603.18859) tables 4, 6 and 9, figure 4"
NEEDS: Final = "turns"
_COLUMNS: Final = {
    "nodes": "distinct states, terminal ones included, on kept transitions",
    "edges": "distinct kept (state, action, next state)",
    "pruned": "fraction of turns that were invalid or ineffective, left out of the graph",
    "degree": "outgoing edges of a state that was acted in",
    "junctions": "fraction of acted-in states with at least two different outgoing edges",
    "pieces": "weakly connected components",
    "depth": "maximum number of hops from a start",
    "hops": "fewest hops from a start to a success; groups with a success",
    "reachable": "fraction of nodes from which a success was reached; groups with a success",
}


def graph_row(group: Group, key: Literal["state", "text"]) -> dict[str, float]:
    """The statistics of one group's graph; nan where undefined."""
    full = StateGraph.from_group(group, key=key)
    retained = group.arrays.valid & (full.source != full.target)
    graph = StateGraph.from_group(group, key=key, kept=retained)
    edges = graph.edges
    begins = (np.diff(group.arrays.offsets) > 0) & (group.first_turns == 0)  # a branch does not begin at the start
    starts = np.unique(graph.source[group.arrays.offsets[:-1][begins]])
    nodes = np.unique(np.concatenate([edges.source, edges.target, starts]))
    digraph: nx.DiGraph[int] = nx.DiGraph()
    digraph.add_nodes_from(nodes.tolist())
    digraph.add_edges_from(zip(edges.source.tolist(), edges.target.tolist(), strict=True))
    out_degree = np.bincount(edges.source, minlength=graph.size)[np.unique(edges.source)]
    depths = nx.multi_source_dijkstra_path_length(digraph, set(starts.tolist()), weight=None) if len(starts) else {}
    to_goal = graph.distances("hops")
    won = len(graph.goals) > 0
    return {
        "nodes": float(len(nodes)),
        "edges": float(len(edges.source)),
        "pruned": float((~retained).mean()),
        "degree": float(out_degree.mean()) if len(out_degree) else float("nan"),
        "junctions": float((out_degree > 1).mean()) if len(out_degree) else float("nan"),
        "pieces": float(nx.number_weakly_connected_components(digraph)),
        "depth": float(max(depths.values(), default=0)),
        "hops": float(to_goal[starts].min()) if won else float("nan"),
        "reachable": float(np.isfinite(to_goal[nodes]).mean()) if won else float("nan"),
    }


def expected_unique(visits: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    """Expected number of distinct items among g of G rollouts drawn without replacement, for g = 1 … G.

    Args:
        visits: int (K,), for each item the number of rollouts that contain it, ≥ 1.
        size: G.

    Returns:
        float64 (G,).
    """
    items = np.bincount(visits, minlength=size + 1)
    seen = [(m, int(count)) for m, count in enumerate(items) if m and count]

    def expected_states(g: int) -> float:
        return sum_in_order(count * (1.0 - comb(size - m, g) / comb(size, g)) for m, count in seen)

    return np.array([expected_states(g) for g in range(1, size + 1)])


def _num_owners(labels: NDArray[np.int64], owner: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """int (K,): for each distinct label the number of different owners."""
    pairs = np.unique(np.stack([labels, owner.astype(np.int64)]), axis=1)
    _, counts = np.unique(pairs[0], return_counts=True)
    return counts.astype(np.int64)


def _curves(group: Group, key: Literal["state", "text"]) -> NDArray[np.float64]:
    """float64 (3, G): expected distinct states, distinct transitions and turns of sub-groups of 1 … G rollouts.

    A branch has visited what its prefix did, with or without its parent; a turn that several of them share counts once.
    """
    arrays, index, episodes = group.arrays, group.states(key), group.episode_index
    end = np.where(arrays.last, arrays.end[arrays.trajectory], OPEN).astype(np.int64)
    state = index.state.astype(np.int64)
    after = index.next_state.astype(np.int64) * 4 + end
    edge = (state * max(len(arrays.actions), 1) + arrays.action) * (4 * len(index.keys)) + after
    turn = np.arange(len(state))
    owners = [_num_owners(labels[episodes.stored], episodes.episode) for labels in (state, edge, turn)]
    return np.stack([expected_unique(visits, arrays.size) for visits in owners])


def _by_size(groups: Sequence[Group], key: Literal["state", "text"]) -> list[dict[str, Any]]:
    """For every sub-group size the means over all groups that have at least as many rollouts."""
    curves = [_curves(group, key) for group in groups]
    rows = []
    for g in range(1, max(len(group) for group in groups) + 1):
        at_size = np.array([curve[:, g - 1] for curve in curves if curve.shape[1] >= g])
        states, edges, turns = at_size.mean(axis=0).tolist()
        rows.append(
            {
                "rollouts": g,
                "groups": len(at_size),
                "turns": turns,
                "states": states,
                "state_share": states / turns,
                "transitions": edges,
                "transition_share": edges / turns,
            }
        )
    return rows


def analyse(groups: Sequence[Group], *, key: Literal["state", "text"] = "state", **_: Any) -> Finding:
    """Graph statistics and repetition.

    Args:
        groups: groups of the log.
        key: the key by which states are compared.

    Raises:
        NotDefined: the log has no turns.
    """
    live = [group for group in groups if len(group.turns)]
    if not live:
        raise NotDefined(f"needs {NEEDS}: the log has none")
    rows = [graph_row(group, key) for group in live]
    statistics = {}
    for name in _COLUMNS:
        values = np.array([row[name] for row in rows])
        values = values[~np.isnan(values)]
        statistics[name] = {
            "mean": float(values.mean()) if len(values) else float("nan"),
            "max": float(values.max()) if len(values) else float("nan"),
            "groups": len(values),
        }
    sizes = _by_size(live, key)
    numbers = {"key": key, "groups": len(live), "graph": statistics, "by_size": sizes}
    fractions = ("pruned", "junctions", "reachable")
    first = [["statistic", "mean", "max", "groups", "meaning"]]
    for name, row in statistics.items():
        show = percent if name in fractions else (lambda x: decimals(x, 1))
        first.append([name, show(row["mean"]), show(row["max"]), str(row["groups"]), _COLUMNS[name]])
    second = [["rollouts", "groups", "states visited", "unique", "fraction", "unique transitions", "fraction"]]
    for row in sizes:
        cells = [str(row["rollouts"]), str(row["groups"]), decimals(row["turns"], 1)]
        for name in ("state", "transition"):
            cells += [decimals(row[f"{name}s"], 1), percent(row[f"{name}_share"])]
        second.append(cells)
    notes = ["a state visit is a turn; unique states are those acted in; fractions are of the visits"]
    if len({len(group) for group in live}) > 1:
        notes.append("groups differ in size: rows of more rollouts are means over the larger groups only")
    if all(len(group) == 1 for group in live):
        notes.append(
            "every group has one rollout, so none can share states; --group-by task puts all rollouts of a task together"
        )
    tables = [Table("State graphs of the groups", first), Table("Unique among visited, by number of rollouts", second)]
    return Finding("rewardflow", SOURCE, numbers, tables, notes)


def draw(finding: Finding, folder: Path) -> Path:
    """Plot visited states, unique states and unique transitions by number of rollouts; returns the PNG file."""
    figure = new_figure(5.0, 3.6)
    axes = figure.subplots()
    rows = finding.numbers["by_size"]
    sizes = [row["rollouts"] for row in rows]
    for i, (name, label) in enumerate(
        {"turns": "visited", "transitions": "unique transitions", "states": "unique states"}.items()
    ):
        axes.plot(sizes, [row[name] for row in rows], marker="o", color=COLOURS[i], label=label)
    axes.set(xlabel="rollouts of one task", ylabel="mean number", xticks=sizes)
    axes.legend(frameon=False, fontsize=9)
    tidy(axes)
    return save_figure(figure, folder / "rewardflow.png")
