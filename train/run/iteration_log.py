"""Metrics of one iteration for ``metrics.jsonl``, their one-line summary, timings and speeds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from creditflow.train.policy.samples import Row
from creditflow.train.progress import duration_text
from creditflow.train.rollout.engine import RolloutReport
from creditflow.train.run.estimate import GPUS, ModelSizes, forward_flops, passes
from creditflow.train.run.metrics_log import MetricsLogger
from creditflow.train.settings.schema import TrainConfig
from creditflow.wrappers.credit.base import Credit
from creditflow.wrappers.credit.entities.egrpo import EGRPO
from creditflow.wrappers.graphs.entity_graph import EntityGraph
from creditflow.wrappers.graphs.state_graph import StateGraph
from creditflow.wrappers.records.group import Group

__all__ = [
    "entity_sums",
    "format_iteration",
    "graph_sums",
    "iteration_metrics",
    "log_iteration",
    "peak_flops",
    "rollout_sums",
    "row_sums",
    "speeds",
    "stopwatch",
]


def rollout_sums(
    groups: Sequence[Group], credits_: Sequence[Credit], report: RolloutReport, discarded: int
) -> dict[str, float]:
    """Counts and sums of the rollout and of its credit; token counts exclude the prefix that a branch shares with its parent."""
    episodes = [t for group in groups for t in group.trajectories]
    turns = [turn for t in episodes for turn in t.turns]
    step = np.concatenate([credit.flat_step_advantages for credit in credits_] or [np.zeros(0)])
    return {
        "groups": len(groups),
        "episodes": len(episodes),
        "branches": sum(bool(t.parent) for t in episodes),
        "turns": len(turns),
        "successes": sum(t.success for t in episodes),
        "returns": float(sum(group.arrays.returns.sum() for group in groups)),
        "invalid": sum(not turn.valid for turn in turns),
        "without_effect": sum(not (turn.valid and turn.effective) for turn in turns),
        "tool_calls": sum(bool(turn.queries or turn.doc_ids) for turn in turns),
        "groups_with_success": len({id(group) for group in groups for t in group.trajectories if t.success}),
        "groups_discarded": discarded,
        "groups_failed_to_start": report.groups_failed_to_start,
        "env_errors": len(report.errors),
        "token_limits": sum(t.stop_reason == "token_limit" for t in episodes),
        "steps_with_credit": int((np.abs(step) > 0).sum()),
        "prompt_tokens": report.prompt_tokens,
        "completion_tokens": report.completion_tokens,
    }


def entity_sums(groups: Sequence[Group]) -> dict[str, float]:
    """Number of episodes whose question has entities, and the sum of the fractions of them that thoughts name (E-GRPO, eq. 2).

    The entities are those that E-GRPO's scheme counts by default.
    """
    scheme = EGRPO()
    episodes, rates = 0, 0.0
    for group in groups:
        entities = scheme.entity_set(EntityGraph.from_task(group.task))
        if not len(entities):
            continue
        reader = scheme.reader(entities, aliases=scheme.aliases)
        for turns in group.episodes:
            named = {entity for turn in turns for entity in reader.found(reader.thought(turn))}
            rates += len(named) / max(reader.countable, 1)
        episodes += len(group)
    return {"episodes_with_entities": episodes, "entity_match_rates": rates}


def graph_sums(groups: Sequence[Group]) -> dict[str, float]:
    """Number of the groups' state graphs that have turns, and sums of their sizes."""
    statistics = [StateGraph.from_group(group).statistics() for group in groups if group.turns]
    return {
        "graphs": len(statistics),
        "graph_nodes": sum(s.nodes for s in statistics),
        "graph_edges": sum(s.edges for s in statistics),
        "unique_states": sum(s.unique_states for s in statistics),
        "graph_turns": sum(s.turns for s in statistics),
    }


def row_sums(rows: Sequence[Row], model: Any, settings: TrainConfig) -> dict[str, float]:
    """Tokens of the training rows, and the FLOP of all passes over them (recomputation, pictures left out).

    Args:
        rows: the training rows.
        model: the policy; 0 FLOP if its family has no known sizes.
        settings: of the run.
    """
    sizes = ModelSizes.of(model)
    plain = replace(settings, model=replace(settings.model, gradient_checkpointing=False))
    forward = sum(forward_flops(sizes, len(row), len(row)) for row in rows) if sizes is not None else 0.0
    return {"row_tokens": sum(map(len, rows)), "row_flops": passes(plain) * forward}


def speeds(sums: Mapping[str, float], seconds: Mapping[str, float], peak: float = 0.0) -> dict[str, float]:
    """What an iteration did per second, and the share of its time that each part took.

    Args:
        sums: ``rollout_sums`` and ``row_sums`` together.
        seconds: of the parts of the iteration.
        peak: FLOP/s that the GPU could do; 0 if it is not known.

    Returns:
        ``speed_sampled_tokens`` and ``speed_trained_tokens`` (tokens/s of the rollout and of the passes over training rows),
        ``speed_mfu`` (FLOP of these passes, without recomputation, as a fraction of the peak) and ``speed_share_NAME``.
    """
    total, trained = sum(seconds.values()), seconds["logprobs"] + seconds["update"]
    rates = {
        "speed_sampled_tokens": sums["completion_tokens"] / seconds["rollout"],
        "speed_trained_tokens": sums["row_tokens"] / trained,
        **{f"speed_share_{name}": value / total for name, value in seconds.items()},
    }
    return rates | ({"speed_mfu": sums["row_flops"] / trained / peak} if peak and sums["row_flops"] else {})


def peak_flops(device: Any) -> float:
    """FLOP/s of a device's dense matrix products in bfloat16; 0 if it is no GPU whose data sheet is known."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    boards = {"A100": "A100", "A800": "A100", "H100": "H100", "H200": "H100", "H800": "H100"}
    return next((GPUS[sheet] for board, sheet in boards.items() if board in name), 0.0)


def iteration_metrics(sums: Mapping[str, float]) -> dict[str, float]:
    """Metrics of the rollout, its credit, its entities and its state graphs (their mean size, as the papers report it).

    ``invalid_state_fraction`` is the fraction of turns after which the environment's reply is no new state, because the action
    was invalid or had no effect (RewardFlow, table 6); ``tool_calls`` is per episode (E-GRPO, figure 3).

    Args:
        sums: ``rollout_sums``, ``entity_sums`` and ``graph_sums`` together.
    """
    episodes, turns, graphs = sums["episodes"], sums["turns"], sums["graphs"]
    copied = ("groups_discarded", "groups_failed_to_start", "env_errors", "token_limits")
    metrics = {name: sums[name] for name in ("episodes", "branches", "turns")} | {
        "success": sums["successes"] / episodes,
        "return": sums["returns"] / episodes,
        "invalid_fraction": sums["invalid"] / turns if turns else 0.0,
        "invalid_state_fraction": sums["without_effect"] / turns if turns else 0.0,
        "tool_calls": sums["tool_calls"] / episodes,
        "groups_with_success": sums["groups_with_success"] / sums["groups"],
        **{name: sums[name] for name in copied},
        "step_credit_fraction": sums["steps_with_credit"] / turns if turns else 0.0,
        **{name: sums[name] for name in ("prompt_tokens", "completion_tokens")},
    }
    if sums.get("episodes_with_entities"):
        metrics["entity_match_rate"] = sums["entity_match_rates"] / sums["episodes_with_entities"]
    if not graphs:
        return metrics
    return metrics | {
        "graph_nodes": sums["graph_nodes"] / graphs,
        "graph_edges": sums["graph_edges"] / graphs,
        "unique_states": sums["unique_states"] / max(sums["graph_turns"], 1),
    }


def format_iteration(number: int, total: int, numbers: Mapping[str, float], seconds: Mapping[str, float]) -> str:
    """The main metrics of an iteration, the seconds of its parts, and the time left at this pace, as one line of text."""

    def value(name: str) -> float:
        return numbers.get(name, float("nan"))

    remaining = duration_text(sum(seconds.values()) * (total - number))
    critic = f" explained variance {numbers['explained_variance']:.2f}" if "explained_variance" in numbers else ""
    mfu = f" (MFU {numbers['speed_mfu']:.1%})" if "speed_mfu" in numbers else ""
    return (
        f"iteration {number}/{total}: success {value('success'):.3f} invalid {value('invalid_fraction'):.3f} "
        f"entropy {value('entropy'):.3f} step credit {value('step_credit_fraction'):.2f}{critic} "
        f"mismatch {value('sampler_mismatch_max'):.1e} | {value('speed_sampled_tokens'):.0f} tokens/s sampled, "
        f"{value('speed_trained_tokens'):.0f} trained{mfu} | {value('seconds'):.2f} s "
        f"({', '.join(f'{name} {value:.2f}' for name, value in seconds.items())})"
        + (f", about {remaining} left" if number < total else "")
    )


def log_iteration(
    logger: MetricsLogger,
    number: int,
    total: int,
    sums: Mapping[str, float],
    losses: Mapping[str, float],
    seconds: Mapping[str, float],
    errors: Sequence[str],
    peak: float = 0.0,
) -> None:
    """Log one iteration: its metrics, one line of text, and its environment errors.

    Args:
        logger: of the run.
        number, total: iterations finished, and all of the run.
        sums: ``rollout_sums``, ``row_sums`` and ``graph_sums``.
        losses: metrics of the update.
        seconds: of the parts of the iteration.
        errors: messages of environment errors.
        peak: FLOP/s that the GPU could do; 0 if it is not known.
    """
    metrics = iteration_metrics(sums) | dict(losses) | speeds(sums, seconds, peak)
    metrics |= {f"seconds_{name}": value for name, value in seconds.items()} | {"seconds": sum(seconds.values())}
    logger.write("rl", number, "iteration", metrics)
    logger.print(format_iteration(number, total, metrics, seconds))
    if cut := int(metrics["token_limits"]):
        logger.print(
            f"  {cut} of {int(metrics['episodes'])} episodes were ended by a limit of tokens, not by the environment"
        )
    if errors:
        logger.print(f"  {len(errors)} environment errors, the first: {errors[0]}")


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
