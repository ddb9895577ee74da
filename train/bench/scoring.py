"""Score every scheme on the same recorded rollouts: what it sees, and what it costs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.groups import Group
from creditflow.wrappers.state_graph import StateGraph

__all__ = ["Score", "log_statistics", "score_log"]

REPEATS = 3


@dataclass(frozen=True, slots=True)
class Score:
    """One scheme on one log.

    Attributes:
        scheme: name.
        seconds_per_thousand_turns: of ``assign_batch`` with the group's arrays built anew; the fastest of three.
        step_coverage: share of turns with non-zero step credit.
        coverage: share of turns with any credit.
        dead_groups: share of groups without any credit.
    """

    scheme: str
    seconds_per_thousand_turns: float
    step_coverage: float
    coverage: float
    dead_groups: float


def score_log(schemes: Mapping[str, Scheme], groups: Sequence[Group]) -> list[Score]:
    """Every scheme on the same groups."""
    return [_score(name, scheme, groups) for name, scheme in schemes.items()]


def _score(name: str, scheme: Scheme, groups: Sequence[Group]) -> Score:
    best = float("inf")
    for _ in range(REPEATS):
        fresh = [Group(group.trajectories, group.task) for group in groups]  # arrays are computed once per Group
        began = time.perf_counter()
        results = scheme.assign_batch(fresh)
        best = min(best, time.perf_counter() - began)
    turns = sum(len(group.turns) for group in groups)
    step = np.concatenate([result.flat_step_advantages for result in results])
    whole = [result.flat_advantages for result in results]
    return Score(
        scheme=name,
        seconds_per_thousand_turns=1000.0 * best / max(turns, 1),
        step_coverage=float((step != 0.0).mean()),
        coverage=float((np.concatenate(whole) != 0.0).mean()),
        dead_groups=float(np.mean([not advantages.any() for advantages in whole])),
    )


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
