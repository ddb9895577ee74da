"""From recorded episodes to an advantage per token of the loop's rows: every turn's tokens get the turn's number. NumPy only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, TrajectoryError
from creditflow.train.adapters.search_r1_loop.episodes import RecordedBatch
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.credit.bridge import assign_turns, numbers, over_spans, per_completion

__all__ = ["Spans", "require_plain_rewards", "token_advantages"]

Spans = Sequence[tuple[int, int]]  # of a row: how many tokens each turn's completion and observation have


def token_advantages(
    played: RecordedBatch, spans: Sequence[Spans], rows: Sequence[int], mask: Any, scheme: Scheme
) -> NDArray[np.float32]:
    """(B, T) advantages: of a turn on each of its sampled tokens, 0 on what the environment wrote and on padding.

    Args:
        played: the recorded episodes of the rollout.
        spans: per row of the rollout, the tokens of its turns in order; a row that was cut has fewer tokens than its spans.
        rows: for every row of the batch its row in the rollout; batches are reordered, and rows may be dropped or repeated.
        mask: (B, T), the loop's ``info_mask`` of the responses: 1 on sampled tokens.
        scheme: any that needs no annotations.

    Raises:
        TrajectoryError: rows that the rollout does not have, other turns than were recorded, or a mask that does not fit.
        ConfigError: a scheme that needs annotations, credits tokens or learns a critic.
    """
    sampled = numbers(mask) != 0
    if sampled.ndim != 2 or len(rows) != len(sampled):
        raise TrajectoryError(f"{len(rows)} rows need a mask (B, T) of as many, got the shape {sampled.shape}")
    if played.groups and all(len(group) == 1 for group in played.groups):
        raise TrajectoryError(
            "every task has one episode, and credit compares several: raise actor_rollout_ref.rollout.n_agent"
        )
    assigned = assign_turns(played.groups, scheme)
    width = sampled.shape[1]
    table, per_span = list[tuple[int, int, int]](), list[float]()
    for i, row in enumerate(rows):
        if not 0 <= row < len(played.places):
            raise TrajectoryError(f"row {i} is row {row} of a rollout of {len(played.places)}: is it of another one?")
        group, member = played.places[row]
        numbers_ = per_completion(played.groups[group].trajectories[member], assigned[group][member], len(spans[row]))
        table.append((i, 0, 0))
        per_span.append(0.0)
        start = 0
        for number, (written, shown) in zip(numbers_, spans[row], strict=True):
            table.append((i, min(start, width), min(start + written, width)))
            per_span.append(number)
            start += written + shown
    try:
        return over_spans(np.array(per_span), table, sampled, exact=True).astype(np.float32)
    except TrajectoryError as error:
        raise TrajectoryError(
            f"{error}; info_mask must separate sampled from shown tokens where they were joined: is the pad token one that the "
            "model writes?"
        ) from error


def require_plain_rewards(batch: Any) -> None:
    """Raise ConfigError if rewards hold a KL penalty, which this credit does not know."""
    names = ("token_level_rewards", "token_level_scores")
    if all(name in batch for name in names) and (numbers(batch[names[0]]) != numbers(batch[names[1]])).any():
        raise ConfigError(
            "token_level_rewards hold a KL penalty, which credit by turn does not: set actor_rollout_ref.actor.use_kl_loss=true"
        )
