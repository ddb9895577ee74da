"""Log-probabilities under the old and the reference policy, computed before the update."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from creditflow.train.policy.batching import batches_of, split_by_row
from creditflow.train.policy.logprobs import token_logprobs
from creditflow.train.policy.network.precision import autocast
from creditflow.train.policy.samples import Row, make_rows
from creditflow.train.settings.schema import UpdateConfig
from creditflow.wrappers.credit.base import Credit
from creditflow.wrappers.records.group import Group

__all__ = ["OldLogprobs", "compute_logprobs", "compute_old_logprobs", "sampler_mismatch", "select_loss_tokens"]


@dataclass(frozen=True, slots=True)
class OldLogprobs:
    """Log-probabilities of every row's target tokens before the update: float32 (n,) arrays, one per row.

    Attributes:
        old: under the old policy, which importance ratios are taken against. None stands for those of the update
            itself: with a single optimiser step the ratio is 1 and its gradient that of the log-probability.
        reference: under the reference policy; None without one.
    """

    old: list[NDArray[np.float32]] | None
    reference: list[NDArray[np.float32]] | None = None


def compute_old_logprobs(
    groups: Sequence[Group],
    model: Any,
    reference: Any | None,
    config: UpdateConfig,
    *,
    temperature: float,
    precision: str = "none",
) -> tuple[list[Row], OldLogprobs]:
    """Rows over all model tokens of the rollouts, and their log-probabilities before the update.

    Only needed ones are computed: with a single optimiser step the update's own log-probabilities replace the old policy's.

    Args:
        groups: the rollouts.
        model: the policy that is about to be updated.
        reference: the reference policy, or None.
        config: settings of the update.
        temperature: sampling temperature of the rollout.
        precision: of forward passes.
    """
    kl_in_reward = reference is not None and config.loss.kl_in == "reward"
    needs_old = not config.one_step or kl_in_reward
    if not needs_old and reference is None:
        return [], OldLogprobs(None)
    no_credit = [Credit.of(group, outcome=np.zeros(len(group))) for group in groups]
    rows = make_rows(groups, no_credit, row_layout=config.row_layout)
    if not rows:
        return rows, OldLogprobs(None)

    def logprobs(policy: Any) -> list[NDArray[np.float32]]:
        return compute_logprobs(policy, rows, config, temperature=temperature, precision=precision)

    old = None
    if needs_old:
        old = [row.sampler_logprob for row in rows] if config.old_logprobs == "sampler" else logprobs(model)
    return rows, OldLogprobs(old, None if reference is None else logprobs(reference))


def compute_logprobs(
    model: Any, rows: Sequence[Row], config: UpdateConfig, *, temperature: float, precision: str = "none"
) -> list[NDArray[np.float32]]:
    """Log-probabilities of all target tokens under a model, without gradient, in the micro-batches of an update."""
    device = next(model.parameters()).device
    out: list[NDArray[np.float32]] = [np.zeros(0, np.float32)] * len(rows)
    was_training = model.training
    model.train()  # the code path of the update, so that the first importance ratio is exactly 1
    with torch.no_grad(), autocast(precision, device):
        for batch in batches_of(rows, config.batch_tokens, device, config.packing):
            policy = token_logprobs(model, batch, temperature=temperature, logits_chunk=config.logits_chunk)
            for i, logprobs in split_by_row(policy.logprob, batch, rows):
                out[i] = logprobs
    model.train(was_training)
    return out


def select_loss_tokens(logprobs: OldLogprobs, all_rows: Sequence[Row], rows: Sequence[Row]) -> OldLogprobs:
    """Select the log-probabilities of the tokens that are in the loss.

    Args:
        logprobs: of ``all_rows``.
        all_rows: rows over all model tokens; empty if nothing was computed.
        rows: the same rows, with the target tokens that the scheme's loss mask kept.
    """
    if not all_rows or (logprobs.old is None and logprobs.reference is None):
        return logprobs
    index = {(row.trajectory, row.turn_index): i for i, row in enumerate(all_rows)}

    def select(arrays: list[NDArray[np.float32]] | None) -> list[NDArray[np.float32]] | None:
        if arrays is None:
            return None
        selected = []
        for row in rows:
            i = index[row.trajectory, row.turn_index]
            selected.append(arrays[i][np.searchsorted(all_rows[i].target, row.target)])
        return selected

    return OldLogprobs(select(logprobs.old), select(logprobs.reference))


def sampler_mismatch(rows: Sequence[Row], trainer: Sequence[NDArray[np.float32]]) -> dict[str, float]:
    """With d = trainer − sampler log-probability: max |d|, mean |d| and KL(sampler ‖ trainer) by k3, in nats."""
    sampler_logprob = np.concatenate([row.sampler_logprob for row in rows]).astype(np.float64)
    difference = np.concatenate(list(trainer)).astype(np.float64) - sampler_logprob
    return {
        "sampler_mismatch_max": float(np.abs(difference).max()),
        "sampler_mismatch_mean": float(np.abs(difference).mean()),
        "sampler_mismatch_kl": float((np.exp(difference) - difference - 1.0).mean()),
    }
