"""What an iteration says of itself: numbers for ``metrics.jsonl``, one plain line, and where the seconds went."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import torch

from creditflow.train.policy.update import nonzero_step_fraction
from creditflow.train.rollout.engine import RolloutReport
from creditflow.wrappers.credit.base import Credit
from creditflow.wrappers.graphs.state_graph import StateGraph
from creditflow.wrappers.records.group import Group

__all__ = ["format_iteration", "graph_metrics", "rollout_metrics", "stopwatch"]


def rollout_metrics(
    groups: Sequence[Group], credits_: Sequence[Credit], report: RolloutReport, discarded: int
) -> dict[str, float]:
    """What was played and how it was credited."""
    episodes = [t for group in groups for t in group.trajectories]
    turns = [turn for t in episodes for turn in t.turns]
    return {
        "episodes": len(episodes),
        "branches": sum(bool(t.parent) for t in episodes),
        "turns": len(turns),
        "success": float(np.mean([t.success for t in episodes])),
        "return": float(np.mean([value for group in groups for value in group.arrays.returns])),
        "invalid_fraction": float(np.mean([not turn.valid for turn in turns])) if turns else 0.0,
        "groups_with_success": float(np.mean([any(t.success for t in group.trajectories) for group in groups])),
        "groups_discarded": discarded,
        "groups_failed_to_start": report.groups_failed_to_start,
        "env_errors": len(report.errors),
        "step_credit_fraction": nonzero_step_fraction(credits_),
        "prompt_tokens": report.prompt_tokens,
        "completion_tokens": report.completion_tokens,
    }


def graph_metrics(groups: Sequence[Group]) -> dict[str, float]:
    """Means over groups of what the papers report about their graphs, and unique / total states."""
    statistics = [StateGraph.from_group(group).statistics() for group in groups if group.turns]
    if not statistics:
        return {}
    turns = sum(s.turns for s in statistics)
    return {
        "graph_nodes": float(np.mean([s.nodes for s in statistics])),
        "graph_edges": float(np.mean([s.edges for s in statistics])),
        "unique_states": sum(s.unique_states for s in statistics) / max(turns, 1),
    }


def format_iteration(number: int, total: int, numbers: Mapping[str, float], seconds: Mapping[str, float]) -> str:
    """One plain line."""

    def shown(name: str) -> float:
        return numbers.get(name, float("nan"))

    critic = f" critic explains {numbers['explained_variance']:.2f}" if "explained_variance" in numbers else ""
    return (
        f"iteration {number}/{total}: success {shown('success'):.3f} invalid {shown('invalid_fraction'):.3f} "
        f"entropy {shown('entropy'):.3f} step credit {shown('step_credit_fraction'):.2f}{critic} "
        f"mismatch {shown('sampler_mismatch_max'):.1e} | {shown('seconds'):.2f} s "
        f"({', '.join(f'{name} {value:.2f}' for name, value in seconds.items())})"
    )


def stopwatch(seconds: dict[str, float], device: Any) -> Callable[[str], AbstractContextManager[None]]:
    """``with timed(name):`` writes the seconds of its block under a name, the device's own work included."""

    @contextmanager
    def timed(name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds[name] = time.perf_counter() - began

    return timed
