"""Metrics of one iteration for ``metrics.jsonl``, their one-line summary, and timings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import torch

from creditflow.train.rollout.engine import RolloutReport
from creditflow.wrappers.credit.base import Credit
from creditflow.wrappers.graphs.state_graph import StateGraph
from creditflow.wrappers.records.group import Group

__all__ = ["format_iteration", "graph_metrics", "rollout_metrics", "stopwatch"]


def rollout_metrics(
    groups: Sequence[Group], credits_: Sequence[Credit], report: RolloutReport, discarded: int
) -> dict[str, float]:
    """Metrics of the rollout and of its credit; token counts exclude the prefix that a branch shares with its parent."""
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
        "step_credit_fraction": _nonzero_step_fraction(credits_),
        "prompt_tokens": report.prompt_tokens,
        "completion_tokens": report.completion_tokens,
    }


def _nonzero_step_fraction(credits_: Sequence[Credit]) -> float:
    """Fraction of turns whose step advantage is not zero."""
    step = np.concatenate([credit.flat_step_advantages for credit in credits_])
    return float((np.abs(step) > 0).mean()) if len(step) else 0.0


def graph_metrics(groups: Sequence[Group]) -> dict[str, float]:
    """Mean size of the groups' state graphs, as the papers report it, and unique states as a fraction of turns."""
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
    """The main metrics of an iteration, and the seconds of its parts, as one line of text."""

    def value(name: str) -> float:
        return numbers.get(name, float("nan"))

    critic = f" explained variance {numbers['explained_variance']:.2f}" if "explained_variance" in numbers else ""
    return (
        f"iteration {number}/{total}: success {value('success'):.3f} invalid {value('invalid_fraction'):.3f} "
        f"entropy {value('entropy'):.3f} step credit {value('step_credit_fraction'):.2f}{critic} "
        f"mismatch {value('sampler_mismatch_max'):.1e} | {value('seconds'):.2f} s "
        f"({', '.join(f'{name} {value:.2f}' for name, value in seconds.items())})"
    )


def stopwatch(seconds: dict[str, float], device: Any) -> Callable[[str], AbstractContextManager[None]]:
    """``with timed(name):`` stores the seconds of its block under a name, work on the device included."""

    @contextmanager
    def timed(name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds[name] = time.perf_counter() - began

    return timed
