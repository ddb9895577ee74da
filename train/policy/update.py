"""The policy update: epochs of minibatches, each one optimiser step of the policy and its critic.

Within a minibatch, gradients accumulate over micro-batches: log-probabilities → token losses → weighted sum → backward.
The metrics have the names that other trainers use (``clip_fraction``, ``approx_kl``, ``entropy``, ``value_loss``).

A minibatch has the rows of one optimiser step, with what the loss needs of every target token.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from creditflow.agents.backends.base import Sampling
from creditflow.agents.models.vision import decoder_of
from creditflow.envs.sums import sum_in_order
from creditflow.train.policy.batching import MicroBatch, batches_of
from creditflow.train.policy.critic import Critic, count_value_targets
from creditflow.train.policy.failures import DivergedError
from creditflow.train.policy.logprobs import hidden_before, token_logprobs
from creditflow.train.policy.losses import kl_estimate, token_losses
from creditflow.train.policy.network.options import autocast
from creditflow.train.policy.nucleus import Nuclei
from creditflow.train.policy.old_logprobs import OldLogprobs
from creditflow.train.policy.optimizer import clip_gradient, set_learning_rate
from creditflow.train.policy.samples import Row, ratio_segments, token_weights
from creditflow.train.settings.update import LossAggregation, UpdateConfig

__all__ = ["FIRST_STEP_MAXIMA", "TOKEN_MEANS", "UpdateSummary", "make_minibatches", "split_by_size", "update_policy"]

POLICY_MEANS: Final = ("loss", "clip_fraction", "approx_kl", "entropy", "grad_norm")
# weighted means over the target tokens of a minibatch
TOKEN_MEANS: Final = ("clip_fraction", "approx_kl", "entropy", "kl_reference", "importance_truncated")
CRITIC_MEANS: Final = ("value_loss", "value_clip_fraction", "value_grad_norm")
# of the first optimiser step, when the policy is still the one that sampled
FIRST_STEP_MAXIMA: Final = ("first_step_ratio_deviation", "sampler_mismatch_max")


class _Means:
    """Means of named metrics over optimiser steps; nan without a step."""

    def __init__(self, names: Sequence[str]) -> None:
        self._sums = dict.fromkeys(names, 0.0)
        self.steps = 0

    def add(self, metrics: Mapping[str, float]) -> None:
        """Count one step, which must have every metric."""
        self.steps += 1
        for name in self._sums:
            self._sums[name] += metrics[name]

    def means(self) -> dict[str, float]:
        return {name: value / self.steps if self.steps else float("nan") for name, value in self._sums.items()}


class UpdateSummary:
    """What ``update_policy`` returns, from the metrics of its optimiser steps.

    Args:
        config: settings of the update.
        has_reference, has_critic: whether there is a reference policy, a critic.
    """

    def __init__(self, config: UpdateConfig, *, has_reference: bool, has_critic: bool) -> None:
        loss = config.loss
        more = (
            ("kl_reference", has_reference and bool(loss.kl_weight) and loss.kl_in == "loss"),
            ("importance_truncated", bool(loss.importance_cap) and config.old_logprobs == "trainer"),
        )
        self._policy = _Means((*POLICY_MEANS, *(name for name, present in more if present)))
        self._critic = _Means(CRITIC_MEANS if has_critic else ())
        self._first_step = dict.fromkeys(FIRST_STEP_MAXIMA, 0.0)
        self._tokens = self._computed = 0.0

    @property
    def steps(self) -> int:
        """Optimiser steps of the policy so far."""
        return self._policy.steps

    def add_policy_step(self, metrics: Mapping[str, float], tokens: int) -> None:
        """Count one step of the policy over a number of tokens of rows."""
        if not self.steps:
            self._first_step = {name: max(0.0, metrics[name]) for name in FIRST_STEP_MAXIMA}
        self._policy.add(metrics)
        self._tokens += tokens
        self._computed += metrics["tokens_computed"]

    def add_critic_step(self, metrics: Mapping[str, float]) -> None:
        """Count one step of the critic."""
        self._critic.add(metrics)

    def metrics(self) -> dict[str, float]:
        """Means over steps, maxima of the first step, and sums."""
        means = self._policy.means() | self._critic.means()
        sums = {"steps": float(self.steps), "tokens": float(self._tokens), "tokens_computed": self._computed}
        return means | self._first_step | sums


def update_policy(
    model: Any,
    optimizer: Any,
    rows: Sequence[Row],
    logprobs: OldLogprobs,
    config: UpdateConfig,
    *,
    aggregation: LossAggregation,
    temperature: float,
    lr: float,
    rng: np.random.Generator,
    precision: str = "none",
    truncation: Sampling | None = None,
    critic: Critic | None = None,
) -> dict[str, float]:
    """Take all optimiser steps of one iteration.

    Args:
        model, optimizer: changed in place.
        rows, logprobs: the batch; log-probabilities of its target tokens before the update.
        config, aggregation: settings of the update; how token losses are averaged over each minibatch.
        temperature, precision: sampling temperature of the rollout; autocast of forward passes ("none", "bfloat16").
        truncation: top_p and top_k of the rollout, if its sampler truncates.
        lr, rng: learning rate of the policy; generator that shuffles rows into minibatches.
        critic: trained on the rows' value targets in the same steps; changed in place.

    Returns:
        Means over optimiser steps (nan without one): loss, clip_fraction, approx_kl (k3 of KL(old ‖ new), nats), entropy (nats),
        grad_norm (before clipping); with truncated importance sampling importance_truncated, the fraction of tokens whose weight
        was truncated; with KL in the loss kl_reference (nats); with a critic value_loss, value_clip_fraction,
        value_grad_norm. Maxima of the first step: first_step_ratio_deviation |ratio − 1|, sampler_mismatch_max (nats).
        Sums: steps, tokens (of rows), tokens_computed (that passed the policy: padding counts, a prefix that packed rows share
        counts once). Rows without gradient count in the weights of the loss only.

    Raises:
        DivergedError: a loss or gradient is not finite; the weights are those before that step.
    """
    learner = _Learner(model, config, temperature, precision, truncation, critic)
    summary = UpdateSummary(config, has_reference=logprobs.reference is not None, has_critic=critic is not None)
    model.train()
    set_learning_rate(optimizer, lr)
    for _ in range(config.epochs):
        for minibatch in make_minibatches(rows, logprobs, config, aggregation, rng):
            trained = learner.with_gradient(minibatch)
            if not trained.rows and critic is None:
                continue
            num_value_targets = 0 if critic is None else count_value_targets(minibatch.rows)
            metrics = learner.gradient(optimizer, trained, minibatch, num_value_targets, summary.steps)
            if trained.rows:
                metrics["grad_norm"] = clip_gradient(model, config.optimizer.grad_clip)
                summary.add_policy_step(metrics, trained.tokens)
            if critic is not None and num_value_targets:
                metrics["value_grad_norm"] = clip_gradient(critic, critic.config.grad_clip)
                summary.add_critic_step(metrics)
            optimizer.step()
    return summary.metrics()


@dataclass(frozen=True, slots=True, eq=False)
class _Learner:
    """Forward and backward passes of policy and critic; gradients accumulate in the modules."""

    model: Any
    config: UpdateConfig
    temperature: float
    precision: str
    truncation: Sampling | None
    critic: Critic | None

    @property
    def shared(self) -> bool:
        """Whether the critic is a value head on the policy's own network."""
        return self.critic is not None and self.critic.shared

    @property
    def device(self) -> Any:
        return next(self.model.parameters()).device

    def with_gradient(self, minibatch: Minibatch) -> Minibatch:
        """The rows that have a policy gradient.

        Rows with zero advantage have none and need no forward pass, unless entropy, KL or a shared value head gives
        them one; their tokens still count in the weights of the others.
        """
        loss = self.config.loss
        every_row = self.shared or bool(loss.entropy_weight or (loss.kl_weight and loss.kl_in == "loss"))
        return minibatch.select([i for i, row in enumerate(minibatch.rows) if every_row or row.advantage.any()])

    def gradient(
        self, optimizer: Any, trained: Minibatch, minibatch: Minibatch, num_value_targets: int, step: int
    ) -> dict[str, float]:
        """Forward and backward of policy and critic; returns their metrics.

        Raises:
            DivergedError: a loss is not finite.
        """
        optimizer.zero_grad(set_to_none=True)
        metrics = self._policy_gradient(trained, num_value_targets, step)
        metrics |= self._critic_gradient(minibatch, num_value_targets)
        computed = sum(float(weights.sum()) for weights in trained.weights)  # of the weight of all rows, 1
        return metrics | {name: metrics[name] / computed for name in TOKEN_MEANS if name in metrics}

    def _policy_gradient(self, minibatch: Minibatch, num_value_targets: int, step: int) -> dict[str, float]:
        """Forward and backward over a minibatch, micro-batch by micro-batch.

        Raises:
            DivergedError: the loss is not finite.
        """
        config = self.config
        sums: dict[str, float] = {}
        for batch in batches_of(minibatch.rows, config.batch_tokens, self.device, config.packing):
            metrics = self._micro_batch(batch, minibatch, num_value_targets)
            if not np.isfinite(metrics["loss"]):
                raise DivergedError(
                    f"the loss is {metrics['loss']} in optimiser step {step} of this iteration",
                    [minibatch.rows[i].trajectory for i in batch.rows],
                )
            for name, value in metrics.items():
                sofar = sums.get(name, 0.0)
                sums[name] = max(sofar, value) if name in FIRST_STEP_MAXIMA else sofar + value
        return sums

    def _micro_batch(self, batch: MicroBatch, minibatch: Minibatch, num_value_targets: int) -> dict[str, float]:
        """Forward and backward over one micro-batch; returns what it adds to the minibatch's metrics."""
        config, critic = self.config, self.critic if self.shared else None

        def flat(arrays: Sequence[NDArray[Any]]) -> Any:
            """One tensor over the target tokens of the micro-batch, from one array per row of the minibatch."""
            return torch.from_numpy(np.concatenate([arrays[i] for i in batch.rows]).astype(np.float32)).to(self.device)

        nuclei = None
        if minibatch.nuclei is not None:
            nuclei = Nuclei.concatenate([minibatch.nuclei[i] for i in batch.rows])
        value: dict[str, Any] | None = None
        with autocast(self.precision, self.device):
            hidden = hidden_before(decoder_of(self.model), batch)
            policy = token_logprobs(
                self.model,
                batch,
                temperature=self.temperature,
                logits_chunk=config.logits_chunk,
                before=hidden,
                truncation=self.truncation,
                nuclei=nuclei,
            )
            if critic is not None and num_value_targets:
                value = critic.loss(batch, minibatch.rows, num_value_targets, hidden)
        weight = flat(minibatch.weights)
        old = policy.logprob.detach() if minibatch.old is None else flat(minibatch.old)
        sampler = flat([row.sampler_logprob for row in minibatch.rows])
        segment = ratio_segments([minibatch.rows[i] for i in batch.rows], config.loss.ratio)
        losses = token_losses(
            policy.logprob,
            policy.entropy,
            old,
            flat([row.advantage for row in minibatch.rows]),
            config.loss,
            sampler_logprob=sampler if config.old_logprobs == "trainer" else None,
            reference_logprob=None if minibatch.reference is None else flat(minibatch.reference),
            segment=None if segment is None else torch.from_numpy(segment).to(self.device),
        )
        loss = minibatch.scale * (weight * losses["loss"]).sum()
        if critic is not None and value is not None:
            loss = loss + critic.config.weight * value["loss"]
        loss.backward()
        with torch.no_grad():
            metrics = {
                "loss": float(loss),
                "tokens_computed": float(batch.tokens),
                "clip_fraction": float((weight * losses["clipped"]).sum()),
                "approx_kl": float((weight * kl_estimate(old, policy.logprob.detach(), "k3")).sum()),
                "entropy": float((weight * policy.entropy).sum()),
                "first_step_ratio_deviation": float((losses["ratio"] - 1.0).abs().max()),
                "sampler_mismatch_max": float((policy.logprob - sampler).abs().max()),
            }
            if "truncated" in losses:
                metrics["importance_truncated"] = float((weight * losses["truncated"]).sum())
            if "kl" in losses:
                metrics["kl_reference"] = float((weight * losses["kl"]).sum())
            if value is not None:
                metrics |= {"value_loss": float(value["loss"]), "value_clip_fraction": value["clip_fraction"]}
        return metrics

    def _critic_gradient(self, minibatch: Minibatch, num_value_targets: int) -> dict[str, float]:
        """Forward and backward of a separate critic over the rows; nothing without one, or without value targets.

        Raises:
            DivergedError: the value loss is not finite.
        """
        critic = self.critic
        if critic is None or critic.shared or not num_value_targets:
            return {}
        critic.train()
        config, rows = self.config, minibatch.rows
        metrics = {"value_loss": 0.0, "value_clip_fraction": 0.0}
        for batch in batches_of(rows, config.batch_tokens, self.device, config.packing):
            with autocast(self.precision, self.device):
                value = critic.loss(batch, rows, num_value_targets)
            value["loss"].backward()
            metrics["value_loss"] += float(value["loss"].detach())
            metrics["value_clip_fraction"] += value["clip_fraction"]
        if not np.isfinite(metrics["value_loss"]):
            raise DivergedError(f"the critic's loss is {metrics['value_loss']}", [row.trajectory for row in rows])
        return metrics


@dataclass(frozen=True, slots=True, eq=False)
class Minibatch:
    """The rows of one optimiser step, and one array (n,) over the target tokens of each row.

    Attributes:
        rows: the rows.
        weights: float64, weights of the token losses; they sum to 1 over the whole minibatch.
        old: float32, log-probabilities under the old policy; None stands for those of the update itself.
        reference: float32, log-probabilities under the reference policy; None without one.
        scale: factor of the weighted sum: 1 for means.
        nuclei: the old policy's nuclei, one per row; None stands for those of the update itself.
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
