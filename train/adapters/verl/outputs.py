"""What verl's agent loop returns of an episode: one output, or one per turn of a windowed history.

Sampled tokens have mask 1, prompt and observation tokens have mask 0, and the sampler's log-probabilities are passed
through. verl's queue worker gives every output the reward of the last one, so rewards and their metrics count rows;
credit is computed from the record alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput

from creditflow.agents.base import TurnTokens
from creditflow.agents.language_model.tokens import join_tokens
from creditflow.train.adapters.verl.record import FIELD, EpisodeRecord
from creditflow.train.adapters.verl.rows import TurnRow
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["make_outputs"]


def make_outputs(
    played: Trajectory,
    task: Mapping[str, Any],
    turns: Sequence[TurnTokens],
    versions: Sequence[Mapping[str, Any]],
    seconds: Mapping[str, float],
    *,
    end: int,
) -> AgentLoopOutput | list[AgentLoopOutput]:
    """The outputs of one episode.

    Args:
        played: the episode.
        task: the task payload if the scheme reads it.
        turns: tokens of the turns.
        versions: weight versions of each completion.
        seconds: time spent, by verl's names.
        end: an end token, for the one masked token of an episode without turns: verl needs a row.
    """
    if not turns:
        nothing = np.array([end], np.int32)
        text = EpisodeRecord.of(replace(played, tokens=None), task).encode()
        return _output(
            played, nothing, nothing, np.zeros(1, np.bool_), np.zeros(1, np.float32), text, versions, seconds
        )
    tokens = join_tokens(turns)
    record = EpisodeRecord.of(replace(played, tokens=tokens), task)
    if not tokens.prompts:
        first = len(turns[0].prompt)
        return _output(
            played, tokens.ids[:first], tokens.ids[first:], tokens.mask[first:], tokens.logprobs[first:],
            record.encode(), versions, seconds,
        )  # fmt: skip
    last = len(turns) - 1
    return [
        _output(
            played, turn.prompt, turn.completion, np.full(len(turn.completion), turn.in_loss), turn.logprobs,
            TurnRow(played.trajectory_id, t, record if t == last else None).encode(), versions[t : t + 1],
            seconds if t == last else {}, slice(t, t + 1),
        )
        for t, turn in enumerate(turns)
    ]  # fmt: skip


def _output(
    played: Trajectory,
    prompt: NDArray[np.int32],
    response: NDArray[np.int32],
    mask: NDArray[np.bool_],
    logprobs: NDArray[np.float32],
    text: str,
    versions: Sequence[Mapping[str, Any]],
    seconds: Mapping[str, float],
    span: slice = slice(None),
) -> AgentLoopOutput:
    """One row, which holds the turns of ``span``."""
    return AgentLoopOutput(
        prompt_ids=prompt.tolist(),
        response_ids=response.tolist(),
        response_mask=mask.astype(int).tolist(),
        response_logprobs=None if np.isnan(logprobs).any() else logprobs.tolist(),
        reward_score=played.episode_return,
        num_turns=2 * len(played.turns),
        metrics=AgentLoopMetrics(**seconds),
        extra_fields={
            FIELD: text,
            "turn_scores": [turn.reward for turn in played.turns[span]],
            "tool_rewards": [],
            "reward_extra_info": {
                "success": float(played.success), "score": played.score, "turns": float(len(played.turns)),
            },
            **_version_range(versions),
        },
    )  # fmt: skip


def _version_range(versions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Range of weight versions that sampled the row, by which verl drops stale ones."""
    lows = [v["min_global_steps"] for v in versions if v.get("min_global_steps") is not None]
    highs = [v["max_global_steps"] for v in versions if v.get("max_global_steps") is not None]
    return {"min_global_steps": min(lows, default=None), "max_global_steps": max(highs, default=None)}
