"""Score every scheme on the same recorded rollouts: what it costs; and what the log is like."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from creditflow.train.bench.columns import played_column
from creditflow.train.bench.controls import Column
from creditflow.train.bench.feeds import feed_log
from creditflow.wrappers.graphs.state_graph import StateGraph
from creditflow.wrappers.records.group import Group

__all__ = ["log_statistics", "score_cost", "sight"]

REPEATS = 3
SAME = 1e-12  # differences of credit below it are rounding


def score_cost(column: Column, groups: Sequence[Group]) -> float:
    """Milliseconds for a thousand turns, with each group's arrays built anew; the fastest of three."""
    best = float("inf")
    for _ in range(REPEATS):
        fresh = [Group(group.trajectories, group.task) for group in groups]  # arrays are computed once per Group
        began = time.perf_counter()
        for group in fresh:
            column(group)
        best = min(best, time.perf_counter() - began)
    return 1e6 * best / max(sum(len(group.turns) for group in groups), 1)


def log_statistics(groups: Sequence[Group]) -> dict[str, Any]:
    """What the log itself is like: success, lengths, and the graphs' statistics, averaged over groups."""
    graphs = [asdict(StateGraph.from_group(group).statistics()) for group in groups]
    members = [trajectory for group in groups for trajectory in group.trajectories]
    return {
        "groups": len(groups),
        "trajectories": len(members),
        "turns": sum(len(member.turns) for member in members),
        "success": float(np.mean([member.success for member in members])),
        "mixed_groups": float(np.mean([0 < sum(m.success for m in g.trajectories) < len(g) for g in groups])),
        "graph": {name: float(np.mean([graph[name] for graph in graphs])) for name in graphs[0]},
    }


def sight(name: str, horizon: int, groups: Sequence[Group], earlier: Sequence[Group] = ()) -> dict[str, float]:
    """What a column sees in a log: shares of turns with credit, and of groups without any.

    Args:
        name: of the column.
        horizon: the turn limit.
        groups: the log.
        earlier: for each group another one, from which numbers are fitted.

    Returns:
        "coverage": turns with credit; "told_apart": turns whose credit differs from the mean of their rollout's;
        "dead_groups": groups without any credit.
    """
    column = played_column(name, horizon, np.random.default_rng(0))
    whole = [column(group) for group in feed_log(name, horizon, groups, earlier)]
    apart = [abs(turns - turns.mean()) > SAME for c in whole for turns in c.advantages if len(turns)]
    return {
        "coverage": float((np.concatenate([c.flat_advantages for c in whole]) != 0.0).mean()),
        "told_apart": float(np.concatenate(apart).mean()),
        "dead_groups": float(np.mean([not c.flat_advantages.any() for c in whole])),
    }
