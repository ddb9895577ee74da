"""Minibatches: the rows of one optimiser step, with what the loss needs of every target token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from creditflow.train.policy.old_logprobs import OldLogprobs
from creditflow.train.policy.samples import Row, token_weights
from creditflow.wrappers.credit.base import Aggregation

__all__ = ["Minibatch", "make_minibatches", "split_into_minibatches"]


@dataclass(frozen=True, slots=True, eq=False)
class Minibatch:
    """The rows of one optimiser step, and one array (n,) over the target tokens of each row.

    Attributes:
        rows: the rows.
        weights: float64, weights of the token losses; they sum to 1 over the whole minibatch.
        old: float32, log-probabilities under the old policy; None stands for those of the update itself.
        reference: float32, log-probabilities under the reference policy; None without one.
    """

    rows: list[Row]
    weights: list[NDArray[np.float64]]
    old: list[NDArray[np.float32]] | None
    reference: list[NDArray[np.float32]] | None

    @property
    def tokens(self) -> int:
        """Number of tokens, prompts included."""
        return sum(map(len, self.rows))

    def select(self, indices: Sequence[int]) -> Minibatch:
        """Some of the rows, with the weights that they have in the whole minibatch."""
        return Minibatch(
            [self.rows[i] for i in indices],
            [self.weights[i] for i in indices],
            None if self.old is None else [self.old[i] for i in indices],
            None if self.reference is None else [self.reference[i] for i in indices],
        )


def split_into_minibatches(rows: Sequence[Row], count: int, rng: np.random.Generator) -> list[list[int]]:
    """Shuffle trajectories into ``count`` minibatches of row indices; fewer if there are fewer trajectories.

    All rows of a trajectory are in the same minibatch.
    """
    trajectories = sorted({row.trajectory for row in rows})
    order = rng.permutation(len(trajectories)).tolist()
    minibatch_of = {trajectories[place]: i % count for i, place in enumerate(order)}
    minibatches: list[list[int]] = [[] for _ in range(count)]
    for i, row in enumerate(rows):
        minibatches[minibatch_of[row.trajectory]].append(i)
    return [minibatch for minibatch in minibatches if minibatch]


def make_minibatches(
    rows: Sequence[Row], logprobs: OldLogprobs, count: int, aggregation: Aggregation, rng: np.random.Generator
) -> Iterator[Minibatch]:
    """Yield the minibatches of one epoch.

    Args:
        rows: the batch.
        logprobs: log-probabilities of the target tokens before the update.
        count: number of minibatches; 1 takes all rows in order and draws nothing.
        aggregation: how token losses are averaged over each minibatch.
        rng: shuffles trajectories.
    """
    for indices in [list(range(len(rows)))] if count == 1 else split_into_minibatches(rows, count, rng):
        members = [rows[i] for i in indices]
        yield Minibatch(
            members,
            token_weights(members, aggregation),
            None if logprobs.old is None else [logprobs.old[i] for i in indices],
            None if logprobs.reference is None else [logprobs.reference[i] for i in indices],
        )
