"""From credit to training rows: a trajectory once with a mask over its model tokens, or one row per turn.

``broadcast_to_tokens`` is the one place where numbers per turn become numbers per token. Rows are plain arrays; how they are
batched (sorted, packed, split) does not change the loss, because every token carries its own weight.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import TrajectoryError
from creditflow.wrappers.credit.base import Aggregation, Credit
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["Row", "broadcast_to_tokens", "make_rows", "token_weights"]


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One sequence to run through the model.

    Attributes:
        ids: int32 (L,).
        target: int64 (n,), positions of the model's tokens that are in the loss, ascending, each ≥ 1.
        advantage: float64 (n,), of each target token.
        sampler_logprob: float32 (n,), as sampled.
        turn: int32 (n,), the turn each target token belongs to.
        trajectory: number of the trajectory; several rows may share one.
        turn_index: the one turn that the row is about; -1 for a whole trajectory. With ``trajectory`` it names the row.
        value_target, value_old: float64 (n,), what a critic should say and said of the history before each target
            token; nan where it is not asked (inside turns, if it values turns). None without critic.
    """

    ids: NDArray[np.int32]
    target: NDArray[np.int64]
    advantage: NDArray[np.float64]
    sampler_logprob: NDArray[np.float32]
    turn: NDArray[np.int32]
    trajectory: int
    turn_index: int = -1
    value_target: NDArray[np.float64] | None = None
    value_old: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.ids)


def broadcast_to_tokens(
    values: NDArray[np.float64], turn_offsets: NDArray[np.int32], mask: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """One number per turn (T,) to one per token (L,): the turn's number on its model tokens, 0 everywhere else.

    >>> broadcast_to_tokens(np.array([1.0, -2.0]), np.array([0, 2, 5]), np.array([False, True, False, True, True]))
    array([ 0.,  1.,  0., -2., -2.])

    Raises:
        TrajectoryError: turns, offsets and mask do not fit together.
    """
    if len(values) != len(turn_offsets) - 1 or (len(turn_offsets) and turn_offsets[-1] > len(mask)):
        raise TrajectoryError(
            f"{len(values)} turns, {len(turn_offsets)} offsets up to {turn_offsets[-1] if len(turn_offsets) else 0}, "
            f"{len(mask)} tokens: they do not fit together"
        )
    out = np.zeros(len(mask))
    start = int(turn_offsets[0]) if len(turn_offsets) else 0
    stop = int(turn_offsets[-1]) if len(turn_offsets) else 0
    out[start:stop] = np.repeat(values, np.diff(turn_offsets))
    return np.where(mask, out, 0.0)


def make_rows(
    groups: Sequence[Group],
    credits_: Sequence[Credit],
    *,
    row_layout: Literal["trajectory", "turn"] = "trajectory",
) -> list[Row]:
    """Training rows of scored groups. Trajectories are numbered through all groups, in order.

    Args:
        groups: whose trajectories carry tokens.
        credits_: one per group.
        row_layout: "trajectory" (one row each; windowed histories still need one per turn) or "turn".

    Raises:
        TrajectoryError: a trajectory with turns has no tokens.
    """
    rows: list[Row] = []
    number = 0
    for group, credit in zip(groups, credits_, strict=True):
        for i, trajectory in enumerate(group.trajectories):
            rows += _rows_of(trajectory, _token_columns(trajectory, credit, i), number, row_layout)
            number += 1
    return rows


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    """Per token (L,): the turn it belongs to, whether it is in the loss, its advantage, value target and old value."""

    turn: NDArray[np.int32]
    kept: NDArray[np.bool_]
    advantage: NDArray[np.float64]
    value_target: NDArray[np.float64] | None
    value_old: NDArray[np.float64] | None


def _token_columns(trajectory: Trajectory, credit: Credit, i: int) -> _Columns | None:
    """One trajectory's credit, token by token; None for an episode that never began."""
    tokens = trajectory.tokens
    if tokens is None:
        if trajectory.turns:
            raise TrajectoryError(
                f"trajectory {trajectory.trajectory_id!r} has no tokens: only a language model's own rollouts, recorded "
                "with their tokens, can be trained on"
            )
        return None
    offsets = tokens.turn_offsets
    turn = np.full(len(tokens.ids), -1, np.int32)
    turn[offsets[0] : offsets[-1]] = np.repeat(np.arange(len(offsets) - 1, dtype=np.int32), np.diff(offsets))
    wrote = tokens.mask & (turn >= 0)
    kept = wrote.copy()
    kept[wrote] = credit.loss_mask[i][turn[wrote]]
    if credit.token_advantages is None:
        advantage = broadcast_to_tokens(credit.advantages[i], offsets, kept)
    else:
        advantage = np.where(kept, _scattered(credit.token_advantages[i], wrote, 0.0), 0.0)
    wanted = credit.value_targets
    if wanted is None:
        return _Columns(turn, kept, advantage, None, None)
    places = wrote
    numbers = wanted.targets[i], wanted.values[i]
    if wanted.level == "turn":  # asked where the turn's first model token comes next
        first = np.flatnonzero(wrote)
        first = first[np.diff(turn[first], prepend=-1) > 0]
        places = np.zeros(len(wrote), np.bool_)
        places[first] = True
        numbers = wanted.targets[i][turn[first]], wanted.values[i][turn[first]]
    return _Columns(turn, kept, advantage, *(_scattered(n, places, np.nan) for n in numbers))


def _scattered(numbers: NDArray[np.float64], places: NDArray[np.bool_], rest: float) -> NDArray[np.float64]:
    if len(numbers) != np.count_nonzero(places):
        raise TrajectoryError(f"{len(numbers)} numbers for {np.count_nonzero(places)} tokens: they do not fit together")
    out = np.full(len(places), rest)
    out[places] = numbers
    return out


def _rows_of(
    trajectory: Trajectory, columns: _Columns | None, number: int, row_layout: Literal["trajectory", "turn"]
) -> Iterator[Row]:
    tokens = trajectory.tokens
    if tokens is None or columns is None:
        return
    offsets = tokens.turn_offsets
    places = np.flatnonzero(columns.kept)

    def row(ids: NDArray[np.int32], mine: NDArray[np.int64], moved: NDArray[np.int64], only: int) -> Row:
        target, old = columns.value_target, columns.value_old
        return Row(
            ids, moved, columns.advantage[mine], tokens.logprobs[mine], columns.turn[mine], number, only,
            None if target is None else target[mine], None if old is None else old[mine],
        )  # fmt: skip

    if row_layout == "trajectory" and not tokens.prompts:
        if len(places):
            yield row(tokens.ids, places, places, -1)
        return
    for t, (start, stop) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
        mine = places[(places >= start) & (places < stop)]
        if not len(mine):
            continue
        if tokens.prompts:
            ids = np.concatenate([tokens.prompts[t], tokens.ids[start:stop]])
            yield row(ids, mine, mine - start + len(tokens.prompts[t]), t)
        else:
            yield row(tokens.ids[:stop], mine, mine, t)


def token_weights(rows: Sequence[Row], aggregation: Aggregation) -> list[NDArray[np.float64]]:
    """Weights w ≥ 0 with sum 1 over all target tokens of ``rows``, so that the loss is Σ w · token loss.

    "token_mean": every token alike. "trajectory_mean": tokens of a trajectory alike, trajectories alike.
    "turn_mean": tokens of a turn, turns of a trajectory, trajectories.
    """
    if not rows:
        return []
    trajectory = np.concatenate([np.full(len(row.target), row.trajectory, np.int64) for row in rows])
    turn = np.concatenate([row.turn for row in rows]).astype(np.int64)
    if aggregation == "token_mean":
        flat = np.full(len(trajectory), 1.0 / max(len(trajectory), 1))
    else:
        _, owner, sizes = np.unique(trajectory, return_inverse=True, return_counts=True)
        if aggregation == "trajectory_mean":
            flat = 1.0 / (len(sizes) * sizes[owner])
        else:
            pairs = np.stack([trajectory, turn], 1)
            first, place, tokens = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)
            _, turns = np.unique(first[:, 0], return_counts=True)
            flat = 1.0 / (len(sizes) * turns[owner] * tokens[place.reshape(-1)])
    return np.split(flat, np.cumsum([len(row.target) for row in rows])[:-1])
