"""One on-policy update: the trainer's loss with equal rows merged, so that every prompt is processed once.

At the first optimiser step of an iteration the importance ratio is 1, so the gradient of the clipped surrogate is
−Σ w·A·∇ log π(a|s) over the tokens of the batch. Turns with the same state and action differ only in w·A, which are summed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.exact.simulate import ArrayGroup
from creditflow.wrappers.credit import Credit
from creditflow.wrappers.credit.base import Aggregation

__all__ = ["merged_weights", "turn_weights"]

Floats = NDArray[np.float64]


def turn_weights(credits_: Sequence[Credit], aggregation: Aggregation) -> list[Floats]:
    """Weight of every turn in the loss, for completions of one token: float64 (N,) per group; they sum to 1 over a batch.

    Equal to ``token_weights`` of the trainer: "token_mean" weights all turns equally, the other two all trajectories.
    """
    masks = [credit.flat_loss_mask for credit in credits_]
    if aggregation == "token_mean":
        total = sum(int(mask.sum()) for mask in masks)
        return [mask / max(total, 1) for mask in masks]
    kept = [
        np.add.reduceat(mask.astype(np.int64), credit.offsets[:-1])
        for mask, credit in zip(masks, credits_, strict=True)
    ]
    trajectories = sum(int((count > 0).sum()) for count in kept)
    weights = []
    for mask, count, credit in zip(masks, kept, credits_, strict=True):
        per_turn = np.divide(1.0, trajectories * count, out=np.zeros(len(count)), where=count > 0)
        weights.append(np.where(mask, np.repeat(per_turn, np.diff(credit.offsets)), 0.0))
    return weights


def merged_weights(
    groups: Sequence[ArrayGroup], credits_: Sequence[Credit], aggregation: Aggregation, *, unit: bool = True
) -> list[Floats]:
    """Σ w·A of every state and action of each group's task: float64 (S, A) per group.

    Args:
        groups: the batch; action indices are those of each group's task.
        credits_: credit of each group.
        aggregation: how the loss is averaged over the batch.
        unit: divide by the root mean square of the advantages in the loss, so that schemes differ in direction and in the
            balance between turns but not in scale; a batch without credit stays 0.
    """
    weights = turn_weights(credits_, aggregation)
    scale = 1.0
    if unit:
        advantages = np.concatenate([credit.flat_advantages[credit.flat_loss_mask] for credit in credits_])
        root = float(np.sqrt(np.mean(advantages**2))) if len(advantages) else 0.0
        scale = 1.0 / root if root > 0.0 else 0.0
    tables = list[Floats]()
    for group, credit, weight in zip(groups, credits_, weights, strict=True):
        mdp = group.mdp
        flat = np.bincount(
            group.number * len(mdp.actions) + group.chosen,
            scale * weight * credit.flat_advantages,
            minlength=mdp.size * len(mdp.actions),
        )
        tables.append(flat.reshape(mdp.size, len(mdp.actions)).astype(np.float64))
    return tables
