"""The rows of all ranks, as every rank sees them: its own whole, those of the others as sizes.

Minibatches and loss weights are then made by the same code, from the same trajectories in the same order, in every rank
and in one process: a rank computes the gradient of its own rows with the weights that they have in the whole minibatch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from creditflow.train.distributed.world import World
from creditflow.train.policy.minibatches import Minibatch
from creditflow.train.policy.old_logprobs import OldLogprobs
from creditflow.train.policy.samples import Row

__all__ = ["RemoteRow", "gather_rows", "own_rows", "renumbered"]


@dataclass(frozen=True, slots=True, eq=False)
class RemoteRow(Row):
    """A row of another rank: its length, turns, and whether it has advantages and value targets, but no tokens."""


def gather_rows(rows: Sequence[Row], logprobs: OldLogprobs, world: World) -> tuple[Sequence[Row], OldLogprobs]:
    """The rows of all ranks in the order of trajectories, and log-probabilities that are None for remote rows.

    Args:
        rows: the rows of this rank, with trajectories numbered over all ranks.
        logprobs: of ``rows``.
        world: the ranks.
    """
    if world.alone:
        return rows, logprobs
    known = (logprobs.old, logprobs.reference, logprobs.nuclei)
    flags = [one is not None for one in known]
    gathered = world.gather([flags, [_description(row) for row in rows]])
    # (trajectory, turn) → the row and its index among this rank's rows
    found: dict[tuple[int, int], tuple[Row, int]] = {}
    for rank, (_, descriptions) in enumerate(gathered):
        own = rank == world.rank
        for index, one in enumerate(descriptions):
            found[one[0], one[1]] = (rows[index], index) if own else (_remote(one), -1)
    ordered = [found[key] for key in sorted(found)]

    def aligned(own: list[Any] | None, which: int) -> list[Any] | None:
        if not any(one[0][which] for one in gathered):
            return None
        return [None if own is None or i < 0 else own[i] for _, i in ordered]

    old, reference, nuclei = (aligned(own, which) for which, own in enumerate(known))
    return [row for row, _ in ordered], OldLogprobs(old, reference, nuclei)


def own_rows(minibatch: Minibatch) -> Minibatch:
    """The rows of a minibatch that this rank computes."""
    own = [i for i, row in enumerate(minibatch.rows) if not isinstance(row, RemoteRow)]
    return minibatch if len(own) == len(minibatch.rows) else minibatch.select(own)


def renumbered(rows: Sequence[Row], numbers: Sequence[int]) -> list[Row]:
    """Rows whose trajectories have these numbers."""
    return [replace(row, trajectory=numbers[row.trajectory]) for row in rows]


def _description(row: Row) -> list[Any]:
    """Trajectory, turn, tokens, whether an advantage is not 0, number of value targets (-1: none), runs of turns."""
    targets = -1 if row.value_target is None else int(np.isfinite(row.value_target).sum())
    starts = np.flatnonzero(np.diff(row.turn, prepend=-1))
    sizes = np.diff(starts, append=len(row.turn))
    runs = [row.turn[starts].tolist(), sizes.tolist()]
    return [row.trajectory, row.turn_index, len(row.ids), bool(row.advantage.any()), targets, runs]


def _remote(description: Sequence[Any]) -> RemoteRow:
    trajectory, turn_index, length, trained, targets, (turns, sizes) = description
    turn = np.repeat(np.array(turns, np.int32), sizes)
    n = len(turn)
    value = None if targets < 0 else np.where(np.arange(n) < targets, 0.0, np.nan)
    return RemoteRow(
        ids=np.broadcast_to(np.int32(0), length),
        target=np.broadcast_to(np.int64(0), n),
        advantage=np.broadcast_to(np.float64(trained), n),
        sampler_logprob=np.broadcast_to(np.float32(0.0), n),
        turn=turn,
        trajectory=trajectory,
        turn_index=turn_index,
        value_target=value,
        value_old=value,
    )
