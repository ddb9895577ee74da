"""Minibatches: the rows of one optimiser step, with what the loss needs of every target token."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.sums import sum_in_order
from creditflow.train.policy.nucleus import Nuclei
from creditflow.train.policy.old_logprobs import OldLogprobs
from creditflow.train.policy.samples import Row, token_weights
from creditflow.train.settings.update import LossAggregation, UpdateConfig

__all__ = ["Minibatch", "make_minibatches", "split_by_size", "split_into_minibatches"]


@dataclass(frozen=True, slots=True, eq=False)
class Minibatch:
    """The rows of one optimiser step, and one array (n,) over the target tokens of each row.

    Attributes:
        rows: the rows.
        weights: float64, weights of the token losses; they sum to 1 over the whole minibatch.
        scale: factor of the weighted sum: 1 for means.
        nuclei: the old policy's nuclei, one per row; None stands for those of the update itself.
        old: float32, log-probabilities under the old policy; None stands for those of the update itself.
        reference: float32, log-probabilities under the reference policy; None without one.
    """

    rows: list[Row]
    weights: list[NDArray[np.float64]]
    old: list[NDArray[np.float32]] | None
    reference: list[NDArray[np.float32]] | None
    scale: float = 1.0
    nuclei: list[Nuclei] | None = None

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
            self.scale,
            None if self.nuclei is None else [self.nuclei[i] for i in indices],
        )


def split_into_minibatches(rows: Sequence[Row], count: int, rng: np.random.Generator) -> list[list[int]]:
    """Shuffle trajectories into ``count`` minibatches of row indices; fewer if there are fewer trajectories.

    All rows of a trajectory are in the same minibatch.
    """
    trajectories = sorted({row.trajectory for row in rows})
    order = rng.permutation(len(trajectories)).tolist()
    minibatch_of = {trajectories[index]: i % count for i, index in enumerate(order)}
    minibatches: list[list[int]] = [[] for _ in range(count)]
    for i, row in enumerate(rows):
        minibatches[minibatch_of[row.trajectory]].append(i)
    return [minibatch for minibatch in minibatches if minibatch]


def split_by_size(rows: Sequence[Row], size: int, unit: str, rng: np.random.Generator) -> list[list[int]]:
    """Shuffle rows into minibatches of about ``size`` units; returns their row indices.

    There are n = max(1, round(total / size)) minibatches. The rows in shuffled order are cut into n parts of equal size, and a
    row belongs to the part that contains its middle, so that sizes differ by little more than one row and none is a small rest.

    Args:
        rows: the batch; a single minibatch takes them in order and uses no random numbers.
        size: > 0, units per minibatch.
        unit: "trajectory" (all its rows stay together), "turn" or "token" (target tokens).
        rng: shuffles rows (trajectories).
    """
    if unit == "trajectory":
        count = _nearest(len({row.trajectory for row in rows}), size)
        return [list(range(len(rows)))] if count == 1 else split_into_minibatches(rows, count, rng)
    sizes = np.array([len(row.target) if unit == "token" else len(np.unique(row.turn)) for row in rows])
    count = _nearest(int(sizes.sum()), size)
    if count == 1:
        return [list(range(len(rows)))]
    order = rng.permutation(len(rows))
    middle = sizes[order].cumsum() - sizes[order] / 2
    minibatch_of = np.empty(len(rows), np.int64)
    minibatch_of[order] = middle * count // sizes.sum()
    minibatches = [np.flatnonzero(minibatch_of == i).tolist() for i in range(count)]
    return [minibatch for minibatch in minibatches if minibatch]  # rows longer than ``size`` leave some empty


def _nearest(total: int, size: int) -> int:
    return max(1, int(total / size + 0.5))


def make_minibatches(
    rows: Sequence[Row],
    logprobs: OldLogprobs,
    config: UpdateConfig,
    aggregation: LossAggregation,
    rng: np.random.Generator,
) -> Iterator[Minibatch]:
    """Yield the minibatches of one epoch.

    Args:
        rows: the batch.
        logprobs: log-probabilities of the target tokens before the update.
        config: number or size of minibatches; a single one takes all rows in order and uses no random numbers.
        aggregation: how token losses are averaged over each minibatch.
        rng: shuffles.
    """
    if config.minibatch_size:
        split = split_by_size(rows, config.minibatch_size, config.minibatch_unit, rng)
    elif config.minibatches == 1:
        split = [list(range(len(rows)))]
    else:
        split = split_into_minibatches(rows, config.minibatches, rng)
    tokens = _tokens_of(rows)
    for indices in split:
        members = [rows[i] for i in indices]
        yield Minibatch(
            members,
            token_weights(members, "token_mean" if aggregation == "constant" else aggregation),
            None if logprobs.old is None else [logprobs.old[i] for i in indices],
            None if logprobs.reference is None else [logprobs.reference[i] for i in indices],
            _tokens_per_trajectory(members, tokens) / config.loss.normaliser if aggregation == "constant" else 1.0,
            None if logprobs.nuclei is None else [logprobs.nuclei[i] for i in indices],
        )


def _tokens_of(rows: Sequence[Row]) -> Counter[int]:
    """Number of target tokens by trajectory."""
    counts: Counter[int] = Counter()
    for row in rows:
        counts[row.trajectory] += len(row.target)
    return counts


def _tokens_per_trajectory(rows: Sequence[Row], all_tokens: Mapping[int, int]) -> float:
    """Mean number of target tokens per trajectory: times the mean over tokens, the mean over trajectories of their sums.

    A trajectory whose rows are in several minibatches counts in each by its part of the target tokens, so that a token's
    weight does not depend on how rows are split.

    Args:
        rows: of a minibatch.
        all_tokens: number of target tokens in the batch by trajectory.
    """
    counts = _tokens_of(rows)
    return counts.total() / sum_in_order(count / all_tokens[trajectory] for trajectory, count in counts.items())
