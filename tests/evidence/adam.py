"""Adam with PPO's epochs and minibatches, as in the trainer's recipes, beside the benchmark's steps of a given KL divergence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.learning.batch import Batch, Draw, LossTurns, ascent_weights, turn_weights
from creditflow.train.settings.update import LossConfig

__all__ = ["AdamUpdate", "clipped_weights", "of_trajectories", "scaled"]

MAX_LOG_RATIO: Final = 20.0  # as in the trainer

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class AdamUpdate:
    """Adam with PPO's minibatches. A batch without credit makes no step.

    Attributes:
        lr: learning rate; or a sequence, that of each update.
        epochs: passes over the update's trajectories.
        minibatches: optimiser steps per epoch; trajectories are shuffled and split.
        betas, eps: parameters of Adam.
        unit: whether credit is divided by its root mean square over the update's turns, so that schemes differ in direction and
            in the balance between turns but not in scale.
    """

    lr: float | Sequence[float] = 0.03
    epochs: int = 1
    minibatches: int = 1
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    unit: bool = False

    def begin(self) -> AdamSteps:
        """The steps of one learner, with moments of its own."""
        return AdamSteps(self)


class Moments(NamedTuple):
    """The state of Adam: decayed means of gradients and of their squares, float64 (P,), and the number of steps."""

    first: Any
    second: Any
    steps: int


class AdamSteps:
    """The steps of one learner.

    Args:
        update: the kind of step.
    """

    def __init__(self, update: AdamUpdate) -> None:
        self._update, self._updates = update, 0
        self._moments: Moments | None = None

    def step(self, policy: Any, batch: Batch, turns: LossTurns, draw: Draw, loss: LossConfig) -> Any:
        """The policy after one update on a batch."""
        update, number = self._update, self._updates
        self._updates += 1
        if not turns.advantage.any():
            return policy
        if update.unit:
            turns = scaled(turns)
        rate = update.lr if isinstance(update.lr, float) else update.lr[number]
        trajectories, rng = np.unique(turns.trajectory), np.random.default_rng(draw.seed)
        now: Floats | None = batch.policy
        for _ in range(update.epochs):
            order = rng.permutation(trajectories) if update.minibatches > 1 else trajectories
            for part in range(update.minibatches):
                minibatch = order[part :: update.minibatches]
                if not len(minibatch):
                    continue
                chosen = of_trajectories(turns, minibatch) if update.minibatches > 1 else turns
                if now is None:
                    now = np.concatenate(policy.probabilities(batch.tasks))
                    weights = clipped_weights(chosen, now, loss, batch.policy)
                else:
                    weights = ascent_weights(chosen, now)
                ascent = getattr(policy, "ascent", policy.gradient)  # in the type in which the policy computes
                policy = self._adam(policy, ascent(batch.tasks, batch.split(weights)), rate)
                now = None
        return policy

    def _adam(self, policy: Any, ascent: Any, rate: float) -> Any:
        """One step of Adam up ``ascent`` (P,), in arrays or tensors alike."""
        first, second, steps = self._moments or Moments(0.0 * ascent, 0.0 * ascent, 0)
        (b1, b2), steps = self._update.betas, steps + 1
        self._moments = Moments(b1 * first + (1 - b1) * ascent, b2 * second + (1 - b2) * ascent**2, steps)
        unbiased = self._moments.first / (1 - b1**steps), self._moments.second / (1 - b2**steps)
        return policy.moved(unbiased[0] / (unbiased[1] ** 0.5 + self._update.eps), rate)


def of_trajectories(turns: LossTurns, trajectories: NDArray[np.int64]) -> LossTurns:
    """The turns of some trajectories: a minibatch."""
    chosen = np.isin(turns.trajectory, trajectories)
    return turns._replace(
        state=turns.state[chosen],
        action=turns.action[chosen],
        trajectory=turns.trajectory[chosen],
        group=turns.group[chosen],
        advantage=turns.advantage[chosen],
    )


def scaled(turns: LossTurns) -> LossTurns:
    """The turns with advantages scaled to root mean square 1; unchanged if all are 0."""
    root = float(np.sqrt(np.mean(turns.advantage**2))) if len(turns.advantage) else 0.0
    return turns._replace(advantage=turns.advantage / root) if root > 0.0 else turns


def clipped_weights(turns: LossTurns, policy: Floats, loss: LossConfig, old: Floats) -> Floats:
    """As ``ascent_weights``, of the loss −Σ_t w_t min(ρ_t A_t, clip(ρ_t) A_t) at a policy that did not sample the rollouts.

    Args:
        turns: the turns of a minibatch.
        policy: float64 (S, A), π.
        loss: clipping.
        old: float64 (S, A), the policy that sampled the rollouts.
    """
    flat = turns.state * policy.shape[1] + turns.action
    log_ratio = np.log(policy.ravel()[flat]) - np.log(old.ravel()[flat])
    factor = turn_weights(turns) * turns.advantage * _surrogate_slope(log_ratio, turns.advantage, loss)
    result: Floats = np.bincount(flat, factor, minlength=policy.size).reshape(policy.shape).astype(np.float64)
    return result


def _surrogate_slope(log_ratio: Floats, advantage: Floats, loss: LossConfig) -> Floats:
    """Derivative of the surrogate by log π, over the advantage: the ratio, or 0 where clipping is active."""
    ratio = np.exp(np.clip(log_ratio, -MAX_LOG_RATIO, MAX_LOG_RATIO))
    clipped = np.where(advantage > 0.0, ratio > 1.0 + loss.clip_high, ratio < 1.0 - loss.clip_low)
    if loss.dual_clip:
        clipped |= (advantage < 0.0) & (ratio > loss.dual_clip)
    return np.where(clipped | (np.abs(log_ratio) > MAX_LOG_RATIO), 0.0, ratio)
