"""From credit to training rows: a trajectory once with a mask over its model tokens, or one row per turn.

Only ``broadcast_to_tokens`` turns numbers per turn into numbers per token. Rows are plain arrays; how they are batched
(sorted, packed, split) does not change the loss, because every token has its own weight.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, TrajectoryError
from creditflow.train.settings.update import RatioLevel
from creditflow.wrappers.credit.base import Aggregation, Credit
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.pictures import EncodedPicture
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["Row", "broadcast_to_tokens", "make_rows", "ratio_segments", "token_weights"]


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One token sequence to train on.

    Attributes:
        ids: int32 (L,), token ids.
        target: int64 (n,), positions of the model's tokens that are in the loss, ascending, each ≥ 1.
        advantage: float64 (n,), advantage of each target token.
        sampler_logprob: float32 (n,), log-probability of each target token at sampling.
        turn: int32 (n,), index of the turn of each target token.
        trajectory: index of the trajectory in the batch; several rows may share one.
        turn_index: the turn, for rows of one turn; -1 for rows of a full trajectory. Identifies the row with ``trajectory``.
        value_target, value_old: float64 (n,), value target and old value of the history before each target token; nan
            where there is none (inside turns, for a critic of turns). None without critic.
        pictures: the pictures in ``ids``, in order.
        group: index of the trajectory's group in the batch.
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
    pictures: tuple[EncodedPicture, ...] = ()
    group: int = 0

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
    groups: Sequence[Group], credits_: Sequence[Credit], *, row_layout: Literal["trajectory", "turn"] = "trajectory"
) -> list[Row]:
    """Training rows of groups with credit. Trajectories are numbered across all groups, in order.

    Args:
        groups: rollouts with tokens.
        credits_: credit of each group.
        row_layout: "trajectory" (one row per trajectory; windowed histories need one per turn anyway) or "turn".

    Raises:
        TrajectoryError: a trajectory with turns has no tokens.
    """
    rows: list[Row] = []
    number = 0
    for g, (group, credit) in enumerate(zip(groups, credits_, strict=True)):
        for i, trajectory in enumerate(group.trajectories):
            rows += _rows_of(trajectory, _token_columns(trajectory, credit, i), number, g, row_layout)
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
    """Credit of one trajectory per token; None for an episode without turns."""
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
    completion = tokens.mask & (turn >= 0)
    in_loss = completion.copy()
    in_loss[completion] = credit.loss_mask[i][turn[completion]]
    if credit.token_advantages is None:
        advantage = broadcast_to_tokens(credit.advantages[i], offsets, in_loss)
    else:
        advantage = np.where(in_loss, _scatter(credit.token_advantages[i], completion, 0.0), 0.0)
    value = credit.value_targets
    if value is None:
        return _Columns(turn, in_loss, advantage, None, None)
    has_target = completion
    target, old = value.targets[i], value.values[i]
    if value.level == "turn":  # the value target of a turn is that of its first model token
        first = np.flatnonzero(completion)
        first = first[np.diff(turn[first], prepend=-1) > 0]
        has_target = np.zeros(len(completion), np.bool_)
        has_target[first] = True
        target, old = target[turn[first]], old[turn[first]]
    return _Columns(turn, in_loss, advantage, _scatter(target, has_target, np.nan), _scatter(old, has_target, np.nan))


def _scatter(values: NDArray[np.float64], mask: NDArray[np.bool_], fill: float) -> NDArray[np.float64]:
    """An array with ``values`` where the mask is true and ``fill`` elsewhere."""
    if len(values) != np.count_nonzero(mask):
        raise TrajectoryError(f"{len(values)} numbers for {np.count_nonzero(mask)} tokens: they do not fit together")
    out = np.full(len(mask), fill)
    out[mask] = values
    return out


def _rows_of(
    trajectory: Trajectory, columns: _Columns | None, number: int, group: int, row_layout: Literal["trajectory", "turn"]
) -> Iterator[Row]:
    tokens = trajectory.tokens
    if tokens is None or columns is None:
        return
    offsets = tokens.turn_offsets
    positions = np.flatnonzero(columns.kept)

    def row(
        ids: NDArray[np.int32],
        at: NDArray[np.int64],
        target: NDArray[np.int64],
        turn_index: int,
        shown: Sequence[Sequence[EncodedPicture]],
    ) -> Row:
        value_target, value_old = columns.value_target, columns.value_old
        return Row(
            ids,
            target,
            columns.advantage[at],
            tokens.logprobs[at],
            columns.turn[at],
            number,
            turn_index,
            None if value_target is None else value_target[at],
            None if value_old is None else value_old[at],
            tuple(picture for turn in shown for picture in turn),
            group,
        )

    if row_layout == "trajectory" and not tokens.prompts:
        if len(positions):
            yield row(tokens.ids, positions, positions, -1, tokens.pictures)
        return
    for t, (start, stop) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
        at = positions[(positions >= start) & (positions < stop)]
        if not len(at):
            continue
        if tokens.prompts:
            ids = np.concatenate([tokens.prompts[t], tokens.ids[start:stop]])
            yield row(ids, at, at - start + len(tokens.prompts[t]), t, tokens.pictures[t : t + 1])
        else:
            yield row(tokens.ids[:stop], at, at, t, tokens.pictures[: t + 1])


def token_weights(rows: Sequence[Row], aggregation: Aggregation) -> list[NDArray[np.float64]]:
    """Weights w ≥ 0 with sum 1 over all target tokens of ``rows``, so that the loss is Σ w · token loss.

    "token_mean": equal weights of all tokens (DAPO). "group_token_mean": equal weights of groups, and of the tokens of one
    (E-GRPO eq. 6). "trajectory_mean": equal weights of trajectories, and of the tokens of one (GRPO, PiCA eq. 14, GDCR/SAPO
    eq. 15). "turn_mean": equal weights of trajectories, of the turns of one, and of the tokens of a turn (RewardFlow eq. 11).
    Groups, trajectories and turns without a target token have no weight. For "constant" the caller passes "token_mean" and sets
    ``Minibatch.scale``.

    Returns:
        One float64 (target tokens,) per row.
    """
    if not rows:
        return []
    targets = [len(row.target) for row in rows]
    trajectory = np.repeat([row.trajectory for row in rows], targets)
    if aggregation == "token_mean":
        flat = np.full(len(trajectory), 1.0 / max(len(trajectory), 1))
    elif aggregation == "group_token_mean":
        flat = _equal_shares(np.repeat([row.group for row in rows], targets))
    elif aggregation == "trajectory_mean":
        flat = _equal_shares(trajectory)
    else:
        turn = np.concatenate([row.turn for row in rows])
        pairs, pair, tokens = np.unique(
            np.stack([trajectory, turn], 1), axis=0, return_inverse=True, return_counts=True
        )
        share = _equal_shares(pairs[:, 0])  # of each turn
        flat = (share / tokens)[pair.reshape(-1)]
    return np.split(flat, np.cumsum(targets)[:-1])


def _equal_shares(owner: NDArray[np.int64]) -> NDArray[np.float64]:
    """float64 (N,): the weights with which every owner of elements counts equally, and so do the elements of one.

    Args:
        owner: int64 (N,), number of each element's owner.
    """
    _, index, sizes = np.unique(owner, return_inverse=True, return_counts=True)
    shares: NDArray[np.float64] = 1.0 / (len(sizes) * sizes[index])
    return shares


def ratio_segments(rows: Sequence[Row], level: RatioLevel) -> NDArray[np.int64] | None:
    """int64 (N,), from 0: the turn or sequence whose importance ratio each target token of ``rows`` shares; None for "token".

    Raises:
        ConfigError: a sequence is split into several rows, so that its ratio cannot be computed.
    """
    if level == "token":
        return None
    if level == "sequence" and any(row.turn_index >= 0 for row in rows):
        raise ConfigError(
            "loss.ratio: sequence needs a row per trajectory (history: append, row_layout: trajectory); with a row per turn, "
            "where released code calls the turn a sequence, use ratio: turn"
        )
    row_of_token = np.repeat(np.arange(len(rows)), [len(row.target) for row in rows])
    if level == "sequence":
        return row_of_token
    turn = np.concatenate([row.turn for row in rows])
    starts = (np.diff(row_of_token, prepend=-1) != 0) | (np.diff(turn, prepend=-1) != 0)
    return np.cumsum(starts) - 1
