"""The policy update: from scored groups to optimiser steps, with every number that tells whether it went well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from creditflow.train.batching import MicroBatch, batches_of
from creditflow.train.failures import DivergedError
from creditflow.train.logprobs import token_scores
from creditflow.train.losses import kl_estimate, token_losses
from creditflow.train.optimiser import set_learning_rate
from creditflow.train.precision import autocast
from creditflow.train.samples import Row, token_weights
from creditflow.train.settings import UpdateConfig
from creditflow.train.sft import clip
from creditflow.wrappers.credit.base import Aggregation, Credit
from creditflow.wrappers.groups import Group

__all__ = ["Scored", "deal", "mismatch", "score_rows", "step_share", "subtract_kl", "update_policy"]


@dataclass(frozen=True, slots=True)
class Scored:
    """Log-probabilities of every row's target tokens before the update: float32 (n,) arrays, one per row.

    Attributes:
        old: what ratios are taken against; None takes the update's own (right when there is one optimiser step only:
            the ratio is 1 and its gradient that of the log-probability).
        reference: of the reference policy; None if there is none.
    """

    old: list[NDArray[np.float32]] | None
    reference: list[NDArray[np.float32]] | None = None


def score_rows(
    model: Any, rows: Sequence[Row], config: UpdateConfig, *, temperature: float, precision: str = "none"
) -> list[NDArray[np.float32]]:
    """Log-probabilities of all target tokens under a model, without gradient; in the micro-batches of an update."""
    device = next(model.parameters()).device
    out: list[NDArray[np.float32]] = [np.zeros(0, np.float32)] * len(rows)
    trained = model.training
    model.train()  # the very same code path as the update: the first ratio is then exactly 1
    with torch.no_grad(), autocast(precision, device):
        for batch in batches_of(rows, config.batch_tokens, device, config.packing):
            flat = token_scores(model, batch, temperature=temperature, chunk=config.chunk).logprob.cpu().numpy()
            sizes = [len(rows[i].target) for i in batch.rows]
            for i, part in zip(batch.rows, np.split(flat, np.cumsum(sizes)[:-1]), strict=True):
                out[i] = part
    model.train(trained)
    return out


def deal(rows: Sequence[Row], parts: int, rng: np.random.Generator) -> list[list[int]]:
    """Rows in ``parts`` minibatches, whole trajectories together; fewer parts if there are fewer trajectories."""
    names = sorted({row.trajectory for row in rows})
    hand = {names[place]: i % parts for i, place in enumerate(rng.permutation(len(names)).tolist())}
    dealt: list[list[int]] = [[] for _ in range(parts)]
    for i, row in enumerate(rows):
        dealt[hand[row.trajectory]].append(i)
    return [part for part in dealt if part]


def subtract_kl(groups: Sequence[Group], rows: Sequence[Row], scored: Scored, weight: float, kind: Any) -> list[Group]:
    """Groups whose turns' rewards are less by weight × Σ KL estimate of their tokens (KL in the reward)."""
    penalty: dict[tuple[int, int], float] = {}
    if scored.reference is None or scored.old is None:
        raise ValueError("KL in the reward needs the rows scored under the policy and its reference before the update")
    for row, old, reference in zip(rows, scored.old, scored.reference, strict=True):
        kl = kl_estimate(torch.from_numpy(old), torch.from_numpy(reference), kind).numpy()
        for turn, value in zip(row.turn.tolist(), kl.tolist(), strict=True):
            penalty[row.trajectory, turn] = penalty.get((row.trajectory, turn), 0.0) + weight * value
    number, out = 0, []
    for group in groups:
        members = []
        for trajectory in group.trajectories:
            turns = tuple(
                replace(turn, reward=turn.reward - penalty.get((number, t), 0.0))
                for t, turn in enumerate(trajectory.turns)
            )
            members.append(replace(trajectory, turns=turns))
            number += 1
        out.append(Group(tuple(members), group.task))
    return out


def update_policy(
    model: Any,
    optimiser: Any,
    rows: Sequence[Row],
    scored: Scored,
    config: UpdateConfig,
    *,
    aggregation: Aggregation,
    temperature: float,
    lr: float,
    rng: np.random.Generator,
    precision: str = "none",
) -> dict[str, float]:
    """All optimiser steps of one iteration.

    Args:
        model, optimiser: changed in place.
        rows: with advantages.
        scored: log-probabilities before the update.
        config: of the update.
        aggregation: how token losses are averaged over each minibatch.
        temperature: of the sampler.
        lr: learning rate.
        rng: deals minibatches.
        precision: of forward passes.

    Returns:
        off_max (largest |trainer − sampler| log-probability before the first step) and means: loss, ratio_first (largest |ratio − 1| in the first step), clip_share, kl_old (k3 against the policy
        before), kl_reference, entropy, grad_norm; steps; tokens. Rows without any gradient are left out of all of them.

    Raises:
        DivergedError: a loss or gradient that is not finite; the weights are as before that step.
    """
    device = next(model.parameters()).device
    totals = {"loss": 0.0, "clip_share": 0.0, "kl_old": 0.0, "kl_reference": 0.0, "entropy": 0.0, "grad_norm": 0.0}
    first, off, steps, tokens = 0.0, 0.0, 0, 0
    # a row whose advantages are all zero pulls nowhere, unless KL or entropy do: it counts in the weights, no more
    regularised = bool(config.loss.entropy_weight or (config.loss.kl_weight and config.loss.kl_in == "loss"))
    model.train()
    set_learning_rate(optimiser, lr)
    for _ in range(config.epochs):
        whole = config.minibatches == 1
        for part in [list(range(len(rows)))] if whole else deal(rows, config.minibatches, rng):
            members = [rows[i] for i in part]
            weights = token_weights(members, aggregation)
            useful = [i for i, row in enumerate(members) if regularised or row.advantage.any()]
            if not useful:
                continue
            members, part = [members[i] for i in useful], [part[i] for i in useful]
            weights = [weights[i] for i in useful]
            optimiser.zero_grad(set_to_none=True)
            sums = dict.fromkeys(totals, 0.0)
            for batch in batches_of(members, config.batch_tokens, device, config.packing):
                got = _micro_step(model, batch, members, part, weights, scored, config, temperature, precision)
                if not np.isfinite(got["loss"]):
                    raise DivergedError(
                        f"the loss is {got['loss']} in optimiser step {steps} of this iteration",
                        [members[i].trajectory for i in batch.rows],
                    )
                if steps == 0:
                    first, off = max(first, got["ratio_off"]), max(off, got["off_max"])
                for name in got.keys() & sums.keys():
                    sums[name] += got[name]
            sums["grad_norm"] = clip(model, config.optimiser.grad_clip)
            optimiser.step()
            steps += 1
            tokens += sum(map(len, members))
            for name in totals:
                totals[name] += sums[name]
    return {name: value / steps if steps else float("nan") for name, value in totals.items()} | {
        "ratio_first": first,
        "off_max": off,
        "steps": float(steps),
        "tokens": float(tokens),
    }


def _micro_step(
    model: Any,
    batch: MicroBatch,
    rows: Sequence[Row],
    part: Sequence[int],
    weights: Sequence[NDArray[np.float64]],
    scored: Scored,
    config: UpdateConfig,
    temperature: float,
    precision: str,
) -> dict[str, float]:
    """Forward and backward of one micro-batch; returns its share of the minibatch's sums."""
    device = batch.ids.device

    def flat(arrays: Sequence[Any]) -> Any:
        return torch.from_numpy(np.concatenate(arrays).astype(np.float32)).to(device)

    with autocast(precision, device):
        scores = token_scores(model, batch, temperature=temperature, chunk=config.chunk)
    advantage = flat([rows[i].advantage for i in batch.rows])
    sampler = flat([rows[i].sampler_logprob for i in batch.rows])
    old = scores.logprob.detach() if scored.old is None else flat([scored.old[part[i]] for i in batch.rows])
    weight = flat([weights[i] for i in batch.rows])
    reference = None
    if scored.reference is not None:
        reference = flat([scored.reference[part[i]] for i in batch.rows])
    losses = token_losses(
        scores.logprob,
        scores.entropy,
        old,
        advantage,
        config.loss,
        sampler_logprob=sampler if config.old_logprobs == "trainer" else None,
        reference_logprob=reference,
    )
    loss = (weight * losses["loss"]).sum()
    loss.backward()
    with torch.no_grad():
        gap = scores.logprob - sampler
        got = {
            "loss": float(loss),
            "off_max": float(gap.abs().max()),
            "clip_share": float((weight * losses["clipped"]).sum()),
            "kl_old": float((weight * kl_estimate(scores.logprob, old, "k3")).sum()),
            "entropy": float((weight * scores.entropy).sum()),
            "ratio_off": float((losses["ratio"] - 1.0).abs().max()),
        }
        if "kl" in losses:
            got["kl_reference"] = float((weight * losses["kl"]).sum())
    return got


def mismatch(rows: Sequence[Row], trainer: Sequence[NDArray[np.float32]]) -> dict[str, float]:
    """How far the sampler's log-probabilities are from the trainer's: largest and mean |difference|, and k3."""
    mine = np.concatenate([row.sampler_logprob for row in rows]).astype(np.float64)
    theirs = np.concatenate(list(trainer)).astype(np.float64)
    gap = theirs - mine
    return {
        "mismatch_max": float(np.abs(gap).max()),
        "mismatch_mean": float(np.abs(gap).mean()),
        "mismatch_kl": float((np.exp(gap) - gap - 1.0).mean()),
    }


def step_share(credits_: Sequence[Credit]) -> float:
    """Share of turns whose step advantage is not zero."""
    step = np.concatenate([credit.flat_step_advantages for credit in credits_])
    return float((np.abs(step) > 0).mean()) if len(step) else 0.0
