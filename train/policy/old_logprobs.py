"""Log-probabilities under the old and the reference policy, computed before the update, and the KL penalty in rewards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from creditflow.agents.backends.base import Sampling
from creditflow.train.policy.batching import batches_of, split_by_row
from creditflow.train.policy.logprobs import token_logprobs
from creditflow.train.policy.losses import KLKind, kl_estimate
from creditflow.train.policy.network.options import autocast
from creditflow.train.policy.nucleus import Nuclei
from creditflow.train.policy.samples import Row, make_rows
from creditflow.train.settings.schema import UpdateConfig
from creditflow.wrappers.credit.base import Credit
from creditflow.wrappers.records.group import Group

__all__ = [
    "OldLogprobs",
    "compute_logprobs",
    "compute_old_logprobs",
    "sampler_mismatch",
    "select_loss_tokens",
    "subtract_kl",
]


@dataclass(frozen=True, slots=True)
class OldLogprobs:
    """Log-probabilities of every row's target tokens before the update: float32 (n,) arrays, one per row.

    Attributes:
        old: under the old policy, which importance ratios are taken against. None stands for those of the update
            itself: with a single optimiser step the ratio is 1 and its gradient that of the log-probability.
        reference: under the reference policy; None without one.
        nuclei: the old policy's nuclei, one entry per row, if the sampler truncates; None: the update computes them itself.
    """

    old: list[NDArray[np.float32]] | None
    reference: list[NDArray[np.float32]] | None = None
    nuclei: list[Nuclei] | None = None


def compute_old_logprobs(
    groups: Sequence[Group],
    model: Any,
    reference: Any | None,
    config: UpdateConfig,
    *,
    temperature: float,
    precision: str = "none",
    truncation: Sampling | None = None,
) -> tuple[list[Row], OldLogprobs]:
    """Rows over all model tokens of the rollouts, and their log-probabilities before the update.

    Only needed ones are computed: with a single optimiser step the update's own log-probabilities replace those that the
    trainer would compute.

    Args:
        groups: the rollouts.
        model: the policy that is about to be updated.
        reference: the reference policy, or None.
        config: settings of the update.
        temperature: sampling temperature of the rollout.
        precision: of forward passes.
        truncation: top_p and top_k of the rollout, if its sampler truncates.
    """
    kl_in_reward = reference is not None and config.loss.kl_in == "reward"
    by_sampler = config.old_logprobs == "sampler"
    needs_old = not config.one_step or kl_in_reward or by_sampler
    if not needs_old and reference is None:
        return [], OldLogprobs(None)
    no_credit = [Credit.of(group) for group in groups]
    rows = make_rows(groups, no_credit, row_layout=config.row_layout)

    def logprobs(policy: Any, nuclei: list[Nuclei] | None = None) -> _Pass:
        return _forward(policy, rows, config, temperature, precision, truncation, nuclei)

    old, nuclei = None, None
    needs_nuclei = truncation is not None and (not config.one_step or reference is not None)
    if needs_nuclei or (needs_old and not by_sampler):
        old, nuclei = logprobs(model)
    if by_sampler:
        old = [row.sampler_logprob for row in rows]
    # the reference is renormalised over the old policy's nuclei
    return rows, OldLogprobs(old, None if reference is None else logprobs(reference, nuclei).logprobs, nuclei)


class _Pass(NamedTuple):
    """Log-probabilities of a forward pass, one array per row, and, under truncation, the nuclei."""

    logprobs: list[NDArray[np.float32]]
    nuclei: list[Nuclei] | None


def compute_logprobs(
    model: Any, rows: Sequence[Row], config: UpdateConfig, *, temperature: float, precision: str = "none"
) -> list[NDArray[np.float32]]:
    """Log-probabilities of all target tokens under a model, without gradient, in the micro-batches of an update."""
    return _forward(model, rows, config, temperature, precision, None, None).logprobs


def _forward(
    model: Any,
    rows: Sequence[Row],
    config: UpdateConfig,
    temperature: float,
    precision: str,
    truncation: Sampling | None,
    nuclei: list[Nuclei] | None,
) -> _Pass:
    device = next(model.parameters()).device
    out: list[NDArray[np.float32]] = [np.zeros(0, np.float32)] * len(rows)
    computed: dict[int, Nuclei] = {}
    was_training = model.training
    model.train()  # the code path of the update, so that the first importance ratio is exactly 1
    budget, packing = config.batch_tokens, config.packing
    with torch.no_grad(), autocast(precision, device):
        for batch in batches_of(rows, budget, device, packing):
            policy = token_logprobs(
                model,
                batch,
                temperature=temperature,
                logits_chunk=config.logits_chunk,
                truncation=truncation,
                nuclei=None if nuclei is None else Nuclei.concatenate([nuclei[i] for i in batch.rows]),
            )
            for i, logprobs in split_by_row(policy.logprob, batch, rows):
                out[i] = logprobs
            if policy.nuclei is not None:
                by_row = policy.nuclei.split([len(rows[i].target) for i in batch.rows])
                computed |= dict(zip(batch.rows, by_row, strict=True))
    model.train(was_training)
    has_nuclei = truncation is not None and nuclei is None
    return _Pass(out, [computed[i] for i in range(len(rows))] if has_nuclei else None)


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

    places = [index[row.trajectory, row.turn_index] for row in rows]
    chosen = [np.searchsorted(all_rows[i].target, row.target) for i, row in zip(places, rows, strict=True)]

    def select(arrays: list[NDArray[np.float32]] | None) -> list[NDArray[np.float32]] | None:
        return None if arrays is None else [arrays[i][tokens] for i, tokens in zip(places, chosen, strict=True)]

    nuclei = logprobs.nuclei
    if nuclei is not None:
        nuclei = [nuclei[i].select(tokens) for i, tokens in zip(places, chosen, strict=True)]
    return OldLogprobs(select(logprobs.old), select(logprobs.reference), nuclei)


def sampler_mismatch(rows: Sequence[Row], trainer: Sequence[NDArray[np.float32]]) -> dict[str, float]:
    """With d = trainer − sampler log-probability: max |d|, mean |d| and KL(sampler ‖ trainer) by k3, in nats.

    Over the target tokens of the rows, of which there is at least one.
    """
    sampler_logprob = np.concatenate([row.sampler_logprob for row in rows]).astype(np.float64)
    difference = np.concatenate([*trainer]).astype(np.float64) - sampler_logprob
    return {
        "sampler_mismatch_max": float(np.abs(difference).max()),
        "sampler_mismatch_mean": float(np.abs(difference).mean()),
        "sampler_mismatch_kl": float((np.exp(difference) - difference - 1.0).mean()),
    }


def subtract_kl(
    groups: Sequence[Group], rows: Sequence[Row], logprobs: OldLogprobs, weight: float, kind: KLKind
) -> list[Group]:
    """Groups with ``weight`` × Σ KL estimate over a turn's tokens subtracted from the reward of every turn.

    Args:
        groups: the rollouts.
        rows: rows over all model tokens of ``groups``.
        logprobs: of ``rows``, under the old and the reference policy.
        weight: coefficient of the KL penalty.
        kind: estimator.

    Raises:
        ValueError: log-probabilities under one of the two policies are missing.
    """
    if logprobs.reference is None or logprobs.old is None:
        raise ValueError("KL in the reward needs log-probabilities under the old and the reference policy")
    penalty: dict[tuple[int, int], float] = {}  # (trajectory, turn) → penalty
    for row, old, reference in zip(rows, logprobs.old, logprobs.reference, strict=True):
        kl = kl_estimate(torch.from_numpy(old), torch.from_numpy(reference), kind).numpy()
        for turn, value in zip(row.turn.tolist(), kl.tolist(), strict=True):
            penalty[row.trajectory, turn] = penalty.get((row.trajectory, turn), 0.0) + weight * value
    number = 0
    penalised = []
    for group in groups:
        trajectories = []
        for trajectory in group.trajectories:
            turns = tuple(
                replace(turn, reward=turn.reward - penalty.get((number, t), 0.0))
                for t, turn in enumerate(trajectory.turns)
            )
            trajectories.append(replace(trajectory, turns=turns))
            number += 1
        penalised.append(Group(tuple(trajectories), group.task))
    return penalised
