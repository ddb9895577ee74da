"""The trainer's loss where every turn has one token, and the weights of the log-probabilities in its gradient.

The loss is that of ``train/policy``: Σ_t w_t [−min(ρ_t A_t, clip(ρ_t) A_t) + kl_weight · KL_t − entropy_weight · H_t] with
w from the loss aggregation (``token_weights``). Its negative gradient is Σ_sa W(s, a) ∇ log π(a|s), which
``Policy.gradient`` computes from W; for the entropy, ∇H(s) = Σ_a −π(a|s) log π(a|s) ∇ log π(a|s).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.exact.simulate import ArrayGroup
from creditflow.train.settings.update import LossAggregation, LossConfig
from creditflow.wrappers.credit import Credit

__all__ = ["Centring", "LossTurns", "Scale", "ascent_weights", "loss_turns", "turn_weights"]

Floats = NDArray[np.float64]
Centring = Literal["none", "group"]
Scale = Literal["credit", "group"]
MAX_LOG_RATIO = 20.0  # as in the trainer
MAX_KL_LOG_RATIO = 10.0
MIN_SCALE = 1e-12  # advantages that are smaller differ from 0 by rounding


class LossTurns(NamedTuple):
    """The turns of one update that are in the loss; each array (N,).

    Attributes:
        state: index of the state among the stacked states of the update's tasks.
        action: index of the action.
        trajectory: number of the trajectory in the update.
        group: number of its group.
        advantage: the turn's credit.
        aggregation: loss aggregation.
        normaliser: tokens per trajectory by which "constant" divides.
    """

    state: NDArray[np.int64]
    action: NDArray[np.int64]
    trajectory: NDArray[np.int64]
    group: NDArray[np.int64]
    advantage: Floats
    aggregation: LossAggregation
    normaliser: float = 0.0

    def of(self, trajectories: NDArray[np.int64]) -> LossTurns:
        """The turns of some trajectories: a minibatch."""
        chosen = np.isin(self.trajectory, trajectories)
        return self._replace(
            state=self.state[chosen],
            action=self.action[chosen],
            trajectory=self.trajectory[chosen],
            group=self.group[chosen],
            advantage=self.advantage[chosen],
        )

    def scaled(self) -> LossTurns:
        """The turns with advantages scaled to root mean square 1; unchanged if all are 0."""
        root = float(np.sqrt(np.mean(self.advantage**2))) if len(self.advantage) else 0.0
        return self._replace(advantage=self.advantage / root) if root > 0.0 else self


def loss_turns(
    groups: Sequence[ArrayGroup],
    credits_: Sequence[Credit],
    loss: LossConfig,
    centring: Centring = "none",
    scale: Scale = "credit",
) -> LossTurns:
    """The turns of an update's groups that are in the loss mask; the others are dropped, as a trainer drops their tokens.

    Args:
        groups: one group per task of the update.
        credits_: their credit.
        loss: its ``aggregation`` "auto" is the scheme's own.
        centring: "group" subtracts from the advantages of each group their mean over the group's turns in the loss.
        scale: "group" divides them by their root mean square over these turns, so that all tasks weigh the same.
    """
    firsts = np.cumsum([0, *(group.mdp.size for group in groups)]).tolist()
    members = np.cumsum([0, *(len(group) for group in groups)]).tolist()
    mask = np.concatenate([credit.flat_loss_mask for credit in credits_])
    states = [group.number + first for group, first in zip(groups, firsts, strict=False)]
    trajectories = [group.arrays.trajectory + first for group, first in zip(groups, members, strict=False)]
    turns = [len(group.number) for group in groups]
    return LossTurns(
        np.concatenate(states)[mask].astype(np.int64),
        np.concatenate([group.chosen for group in groups])[mask].astype(np.int64),
        np.concatenate(trajectories)[mask].astype(np.int64),
        np.repeat(np.arange(len(groups)), turns)[mask],
        np.concatenate([_weighted(credit, centring, scale) for credit in credits_]),
        credits_[0].aggregation if loss.aggregation == "auto" else loss.aggregation,
        loss.normaliser,
    )


def _weighted(credit: Credit, centring: Centring, scale: Scale) -> Floats:
    """The advantages of a group's turns in the loss, float64 (n,), centred and scaled."""
    advantages: Floats = credit.flat_advantages[credit.flat_loss_mask]
    if centring == "group" and len(advantages):
        advantages = advantages - advantages.mean()
    if scale == "group" and len(advantages) and (root := float(np.sqrt(np.mean(advantages**2)))) > MIN_SCALE:
        advantages = advantages / root
    return advantages


def turn_weights(turns: LossTurns) -> Floats:
    """float64 (N,): weights of the turns: equal for all, or equal for groups or trajectories and within each of them.

    They sum to 1, but for "constant", where each is 1 over the number of trajectories times the normaliser.
    """
    count = len(turns.trajectory)
    if turns.aggregation == "token_mean" or not count:
        return np.full(count, 1.0 / max(count, 1))
    owner = turns.group if turns.aggregation == "group_token_mean" else turns.trajectory
    lengths = np.bincount(owner)
    if turns.aggregation == "constant":
        return np.full(count, 1.0 / (np.count_nonzero(lengths) * turns.normaliser))
    weights: Floats = 1.0 / (np.count_nonzero(lengths) * lengths[owner])
    return weights


def ascent_weights(
    turns: LossTurns, policy: Floats, loss: LossConfig, *, old: Floats | None = None, reference: Floats | None = None
) -> Floats:
    """float64 (S, A): W with −∇ loss = Σ_sa W(s, a) ∇ log π(a|s).

    Args:
        turns: the turns of a minibatch.
        policy: float64 (S, A), π.
        loss: clipping, weights of KL and entropy.
        old: float64 (S, A), the old policy, which sampled the rollouts; None for π itself, so that every ratio is 1.
        reference: float64 (S, A), the reference policy of the KL term.
    """
    weight, flat = turn_weights(turns), turns.state * policy.shape[1] + turns.action
    logprob = np.log(policy.ravel()[flat])
    factor = weight * turns.advantage
    if old is not None:
        log_ratio = logprob - np.log(old.ravel()[flat])
        factor = factor * _surrogate_slope(log_ratio, turns.advantage, loss)
    if loss.kl_weight and reference is not None:
        factor = factor - loss.kl_weight * weight * _kl_slope(np.log(reference.ravel()[flat]) - logprob, loss.kl_kind)
    result: Floats = np.bincount(flat, factor, minlength=policy.size).reshape(policy.shape).astype(np.float64)
    if loss.entropy_weight:
        by_state = np.bincount(turns.state, weight, minlength=len(policy))
        result -= loss.entropy_weight * by_state[:, None] * policy * np.log(np.maximum(policy, np.finfo(float).tiny))
    return result


def _surrogate_slope(log_ratio: Floats, advantage: Floats, loss: LossConfig) -> Floats:
    """Derivative of the surrogate by log π, over the advantage: the ratio, or 0 where clipping is active."""
    ratio = np.exp(np.clip(log_ratio, -MAX_LOG_RATIO, MAX_LOG_RATIO))
    clipped = np.where(advantage > 0.0, ratio > 1.0 + loss.clip_high, ratio < 1.0 - loss.clip_low)
    if loss.dual_clip:
        clipped |= (advantage < 0.0) & (ratio > loss.dual_clip)
    return np.where(clipped | (np.abs(log_ratio) > MAX_LOG_RATIO), 0.0, ratio)


def _kl_slope(gap: Floats, kind: str) -> Floats:
    """Derivative of the KL estimate by log π; ``gap`` is log π_ref − log π."""
    inside = np.abs(gap) <= MAX_KL_LOG_RATIO
    if kind == "k1":
        return np.where(inside, 1.0, 0.0)
    if kind == "k2":
        return np.where(inside, -gap, 0.0)
    if kind == "abs":
        return np.where(inside, -np.sign(gap), 0.0)
    return np.where(inside, 1.0 - np.exp(np.clip(gap, -MAX_KL_LOG_RATIO, MAX_KL_LOG_RATIO)), 0.0)
