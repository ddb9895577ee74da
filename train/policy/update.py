"""The policy update: from scored groups to optimiser steps, with every number that tells whether it went well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from creditflow.train.policy.batching import MicroBatch, batches_of
from creditflow.train.policy.critic import Critic
from creditflow.train.policy.logprobs import hidden_before, token_logprobs
from creditflow.train.policy.losses import kl_estimate, token_losses
from creditflow.train.policy.old_logprobs import OldLogprobs
from creditflow.train.policy.optimizer import set_learning_rate
from creditflow.train.policy.precision import autocast
from creditflow.train.policy.samples import Row, token_weights
from creditflow.train.policy.sft import clip
from creditflow.train.run.failures import DivergedError
from creditflow.train.settings.schema import UpdateConfig
from creditflow.wrappers.credit.base import Aggregation, Credit
from creditflow.wrappers.records.group import Group

__all__ = ["deal", "nonzero_step_fraction", "subtract_kl", "update_policy"]


def deal(rows: Sequence[Row], parts: int, rng: np.random.Generator) -> list[list[int]]:
    """Rows in ``parts`` minibatches, whole trajectories together; fewer parts if there are fewer trajectories."""
    names = sorted({row.trajectory for row in rows})
    hand = {names[place]: i % parts for i, place in enumerate(rng.permutation(len(names)).tolist())}
    dealt: list[list[int]] = [[] for _ in range(parts)]
    for i, row in enumerate(rows):
        dealt[hand[row.trajectory]].append(i)
    return [part for part in dealt if part]


def subtract_kl(
    groups: Sequence[Group], rows: Sequence[Row], scored: OldLogprobs, weight: float, kind: Any
) -> list[Group]:
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
    optimizer: Any,
    rows: Sequence[Row],
    scored: OldLogprobs,
    config: UpdateConfig,
    *,
    aggregation: Aggregation,
    temperature: float,
    lr: float,
    rng: np.random.Generator,
    precision: str = "none",
    critic: Critic | None = None,
) -> dict[str, float]:
    """All optimiser steps of one iteration.

    Args:
        model, optimizer: changed in place.
        rows: with advantages.
        scored: log-probabilities before the update.
        config: of the update.
        aggregation: how token losses are averaged over each minibatch.
        temperature: of the sampler.
        lr: learning rate.
        rng: deals minibatches.
        precision: of forward passes.
        critic: learns from the rows' value targets in the same steps; changed in place.

    Returns:
        sampler_mismatch_max (largest |trainer − sampler| log-probability before the first step) and means: loss, first_step_ratio_deviation (largest |ratio − 1| in the first step), clip_fraction, approx_kl (k3 against the policy
        before), kl_reference, entropy, grad_norm; steps; tokens; with a critic value_loss, value_clip_fraction and
        value_grad_norm. Rows without any gradient are left out of all of them.

    Raises:
        DivergedError: a loss or gradient that is not finite; the weights are as before that step.
    """
    device = next(model.parameters()).device
    totals = {
        "loss": 0.0,
        "clip_fraction": 0.0,
        "approx_kl": 0.0,
        "kl_reference": 0.0,
        "entropy": 0.0,
        "grad_norm": 0.0,
    }
    learned = {"value_loss": 0.0, "value_clip_fraction": 0.0, "value_grad_norm": 0.0} if critic is not None else {}
    first, off, steps, lessons, tokens = 0.0, 0.0, 0, 0, 0
    # a row whose advantages are all zero pulls nowhere, unless KL, entropy or a value head on the policy's own network
    # do: it counts in the weights, no more
    regularised = bool(config.loss.entropy_weight or (config.loss.kl_weight and config.loss.kl_in == "loss"))
    shared = critic if critic is not None and critic.shared else None
    model.train()
    set_learning_rate(optimizer, lr)
    for _ in range(config.epochs):
        whole = config.minibatches == 1
        for part in [list(range(len(rows)))] if whole else deal(rows, config.minibatches, rng):
            everyone = [rows[i] for i in part]
            weights = token_weights(everyone, aggregation)
            useful = [i for i, row in enumerate(everyone) if regularised or shared or row.advantage.any()]
            if not useful and critic is None:
                continue
            members, part = [everyone[i] for i in useful], [part[i] for i in useful]
            weights = [weights[i] for i in useful]
            optimizer.zero_grad(set_to_none=True)
            sums = dict.fromkeys((*totals, *learned), 0.0)
            asked = _value_targets(everyone)
            for batch in batches_of(members, config.batch_tokens, device, config.packing):
                got = _micro_step(
                    model, batch, members, part, weights, scored, config, temperature, precision, shared, asked
                )
                if not np.isfinite(got["loss"]):
                    raise DivergedError(
                        f"the loss is {got['loss']} in optimiser step {steps} of this iteration",
                        [members[i].trajectory for i in batch.rows],
                    )
                if steps == 0:
                    first, off = max(first, got["ratio_deviation"]), max(off, got["sampler_mismatch_max"])
                for name in got.keys() & sums.keys():
                    sums[name] += got[name]
            if critic is not None and not critic.shared and asked:
                for name, value in _critic_step(critic, everyone, config, precision, asked).items():
                    sums[name] += value
            if useful:
                sums["grad_norm"] = clip(model, config.optimizer.grad_clip)
                steps += 1
                tokens += sum(map(len, members))
                for name in totals:
                    totals[name] += sums[name]
            if critic is not None and asked:
                sums["value_grad_norm"] = clip(critic, critic.config.grad_clip)
                lessons += 1
                for name in learned:
                    learned[name] += sums[name]
            optimizer.step()
            if critic is not None and not critic.shared and asked:
                for _ in range(critic.config.epochs - 1):
                    optimizer.zero_grad(set_to_none=True)
                    _critic_step(critic, everyone, config, precision, asked)
                    clip(critic, critic.config.grad_clip)
                    optimizer.step()
    return (
        {name: value / steps if steps else float("nan") for name, value in totals.items()}
        | {name: value / lessons if lessons else float("nan") for name, value in learned.items()}
        | {
            "first_step_ratio_deviation": first,
            "sampler_mismatch_max": off,
            "steps": float(steps),
            "tokens": float(tokens),
        }
    )


def _value_targets(rows: Sequence[Row]) -> int:
    """How many tokens a critic is asked about."""
    return sum(int(np.isfinite(row.value_target).sum()) for row in rows if row.value_target is not None)


def _critic_step(
    critic: Critic, rows: Sequence[Row], config: UpdateConfig, precision: str, asked: int
) -> dict[str, float]:
    """Forward and backward of a separate critic over one minibatch."""
    device = next(critic.parameters()).device
    sums = {"value_loss": 0.0, "value_clip_fraction": 0.0}
    critic.train()
    for batch in batches_of(rows, config.batch_tokens, device, config.packing):
        with autocast(precision, device):
            got = critic.loss(batch, rows, asked)
        got["loss"].backward()
        sums["value_loss"] += float(got["loss"].detach())
        sums["value_clip_fraction"] += got["value_clip_fraction"]
    if not np.isfinite(sums["value_loss"]):
        raise DivergedError(f"the critic's loss is {sums['value_loss']}", [row.trajectory for row in rows])
    return sums


def _micro_step(
    model: Any,
    batch: MicroBatch,
    rows: Sequence[Row],
    part: Sequence[int],
    weights: Sequence[NDArray[np.float64]],
    scored: OldLogprobs,
    config: UpdateConfig,
    temperature: float,
    precision: str,
    critic: Critic | None,
    asked: int,
) -> dict[str, float]:
    """Forward and backward of one micro-batch; returns its share of the minibatch's sums.

    ``critic``: one that shares the policy's network and learns in the same pass from ``asked`` targets in all.
    """
    device = batch.ids.device

    def flat(arrays: Sequence[Any]) -> Any:
        return torch.from_numpy(np.concatenate(arrays).astype(np.float32)).to(device)

    with autocast(precision, device):
        before = hidden_before(model.get_decoder(), batch)
        scores = token_logprobs(model, batch, temperature=temperature, logits_chunk=config.logits_chunk, before=before)
        lesson = critic.loss(batch, rows, asked, before) if critic is not None and asked else None
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
    whole = loss if critic is None or lesson is None else loss + critic.config.weight * lesson["loss"]
    whole.backward()
    with torch.no_grad():
        gap = scores.logprob - sampler
        got = {
            "loss": float(whole),
            "sampler_mismatch_max": float(gap.abs().max()),
            "clip_fraction": float((weight * losses["clipped"]).sum()),
            "approx_kl": float((weight * kl_estimate(scores.logprob, old, "k3")).sum()),
            "entropy": float((weight * scores.entropy).sum()),
            "ratio_deviation": float((losses["ratio"] - 1.0).abs().max()),
        }
        if "kl" in losses:
            got["kl_reference"] = float((weight * losses["kl"]).sum())
        if lesson is not None:
            got |= {"value_loss": float(lesson["loss"]), "value_clip_fraction": lesson["value_clip_fraction"]}
    return got


def nonzero_step_fraction(credits_: Sequence[Credit]) -> float:
    """Share of turns whose step advantage is not zero."""
    step = np.concatenate([credit.flat_step_advantages for credit in credits_])
    return float((np.abs(step) > 0).mean()) if len(step) else 0.0
