"""What the policies said before the update: log-probabilities of every row's target tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from creditflow.train.policy.batching import batches_of
from creditflow.train.policy.logprobs import token_logprobs
from creditflow.train.policy.precision import autocast
from creditflow.train.policy.samples import Row
from creditflow.train.settings.schema import UpdateConfig

__all__ = ["OldLogprobs", "compute_logprobs", "sampler_mismatch", "select_loss_tokens"]


@dataclass(frozen=True, slots=True)
class OldLogprobs:
    """Log-probabilities of every row's target tokens before the update: float32 (n,) arrays, one per row.

    Attributes:
        old: what ratios are taken against; None takes the update's own (right when there is one optimiser step only:
            the ratio is 1 and its gradient that of the log-probability).
        reference: of the reference policy; None if there is none.
    """

    old: list[NDArray[np.float32]] | None
    reference: list[NDArray[np.float32]] | None = None


def compute_logprobs(
    model: Any, rows: Sequence[Row], config: UpdateConfig, *, temperature: float, precision: str = "none"
) -> list[NDArray[np.float32]]:
    """Log-probabilities of all target tokens under a model, without gradient; in the micro-batches of an update."""
    device = next(model.parameters()).device
    out: list[NDArray[np.float32]] = [np.zeros(0, np.float32)] * len(rows)
    trained = model.training
    model.train()  # the very same code path as the update: the first ratio is then exactly 1
    with torch.no_grad(), autocast(precision, device):
        for batch in batches_of(rows, config.batch_tokens, device, config.packing):
            flat = (
                token_logprobs(model, batch, temperature=temperature, logits_chunk=config.logits_chunk)
                .logprob.cpu()
                .numpy()
            )
            sizes = [len(rows[i].target) for i in batch.rows]
            for i, part in zip(batch.rows, np.split(flat, np.cumsum(sizes)[:-1]), strict=True):
                out[i] = part
    model.train(trained)
    return out


def select_loss_tokens(scored: OldLogprobs, before: Sequence[Row], after: Sequence[Row]) -> OldLogprobs:
    """Scores of all model tokens, cut down to those that the scheme left in the loss."""
    if not before or (scored.old is None and scored.reference is None):
        return scored
    place = {(row.trajectory, row.turn_index): i for i, row in enumerate(before)}

    def cut(parts: list[NDArray[np.float32]] | None) -> list[NDArray[np.float32]] | None:
        if parts is None:
            return None
        out = []
        for row in after:
            i = place[row.trajectory, row.turn_index]
            out.append(parts[i][np.searchsorted(before[i].target, row.target)])
        return out

    return OldLogprobs(cut(scored.old), cut(scored.reference))


def sampler_mismatch(rows: Sequence[Row], trainer: Sequence[NDArray[np.float32]]) -> dict[str, float]:
    """How far the sampler's log-probabilities are from the trainer's: largest and mean |difference|, and k3."""
    mine = np.concatenate([row.sampler_logprob for row in rows]).astype(np.float64)
    theirs = np.concatenate(list(trainer)).astype(np.float64)
    gap = theirs - mine
    return {
        "sampler_mismatch_max": float(np.abs(gap).max()),
        "sampler_mismatch_mean": float(np.abs(gap).mean()),
        "sampler_mismatch_kl": float((np.exp(gap) - gap - 1.0).mean()),
    }
