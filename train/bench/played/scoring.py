"""Statistics of a suite's recorded log: the time and the coverage of every scheme on it, and what it contains."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from creditflow.train.bench.annotation_sources import annotated_log
from creditflow.train.bench.controls import CreditFunction
from creditflow.train.bench.methods import played_method
from creditflow.wrappers.graphs.state_graph import StateGraph
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.log_size import LogSize

__all__ = ["credit_coverage", "log_statistics", "milliseconds_per_1000_turns"]

REPEATS = 3
TOLERANCE = 1e-12  # smaller differences of credit are rounding errors


def milliseconds_per_1000_turns(method: CreditFunction, groups: Sequence[Group]) -> float:
    """Time to assign credit to a thousand turns, group arrays included, in milliseconds; the fastest of three runs."""
    best = float("inf")
    for _ in range(REPEATS):
        fresh = [Group(group.trajectories, group.task) for group in groups]  # arrays are computed once per Group
        began = time.perf_counter()
        for group in fresh:
            method(group)
        best = min(best, time.perf_counter() - began)
    return 1e6 * best / max(sum(len(group.turns) for group in groups), 1)


def log_statistics(groups: Sequence[Group]) -> dict[str, Any]:
    """Sizes and success of the log, and statistics of its state graphs averaged over groups."""
    graphs = [asdict(StateGraph.from_group(group).statistics()) for group in groups]
    successes = [sum(member.success for member in group.trajectories) for group in groups]
    mixed = [0 < count < len(group) for count, group in zip(successes, groups, strict=True)]
    return {
        **LogSize.of(groups)._asdict(),
        "mixed_groups": float(np.mean(mixed)),
        "graph": {name: _mean_of(graphs, name) for name in graphs[0]},
    }


def _mean_of(statistics: Sequence[Mapping[str, float]], name: str) -> float:
    return float(np.mean([of_group[name] for of_group in statistics]))


def credit_coverage(
    name: str, horizon: int, groups: Sequence[Group], earlier: Sequence[Group] = ()
) -> dict[str, float]:
    """How much of a log a method assigns credit to.

    Args:
        name: name of the method.
        horizon: turn limit.
        groups: groups of the log.
        earlier: for each group another one, on which annotations are fitted.

    Returns:
        Fractions: "coverage", turns with credit; "turn_level", turns whose credit differs from the mean of their rollout;
        "dead_groups", groups without any credit.
    """
    method = played_method(name, horizon, [0])
    assigned = [method(group) for group in annotated_log(name, horizon, groups, earlier)]
    differs = [abs(turns - turns.mean()) > TOLERANCE for c in assigned for turns in c.advantages if len(turns)]
    return {
        "coverage": float((np.concatenate([c.flat_advantages for c in assigned]) != 0.0).mean()),
        "turn_level": float(np.concatenate(differs).mean()),
        "dead_groups": float(np.mean([not c.flat_advantages.any() for c in assigned])),
    }
