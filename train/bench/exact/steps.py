"""Step sizes η at which the visit-weighted KL divergence to the old policy has a given value.

Schemes differ in the scale of their credit, so equal learning rates would not be equal steps. With p the old policy and
g a direction in the logits, KL(p ‖ p_η) of one state is log Σ_a p_a e^(η g_a) − η Σ_a p_a g_a.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["divergence", "step_sizes"]

Floats = NDArray[np.float64]
MAX_ITERATIONS = 40
KL_TOLERANCE = 1e-9  # relative to the target
MAX_DOUBLINGS = 40
MIN_DIRECTION = 1e-12  # a direction without a larger entry counts as 0


def divergence(policies: Floats, directions: Floats, weights: Floats, sizes: Floats) -> Floats:
    """Σ_s weights(s) KL(p(s) ‖ p_η(s)) in nats; float64 (B,).

    Args:
        policies: float64 (B, S, A) or (1, S, A), the old policies.
        directions: float64 (B, S, A).
        weights: float64 (B, S) or (1, S).
        sizes: float64 (B,), η.
    """
    move = sizes[:, None, None] * directions
    top = move[:, :, 0]
    for action in range(1, move.shape[2]):  # faster than max over so short an axis
        top = np.maximum(top, move[:, :, action])
    powers = np.exp(move - top[:, :, None])
    policies = np.broadcast_to(policies, powers.shape)
    log_sum = np.log(np.einsum("bsa,bsa->bs", policies, powers)) + top
    terms: Floats = log_sum - np.einsum("bsa,bsa->bs", policies, move)
    total: Floats = (weights * terms).sum(axis=1)
    return total


def step_sizes(policies: Floats, directions: Floats, weights: Floats, target: float) -> Floats:
    """η of each direction at which the divergence is ``target``; 0.0 where the direction is 0; float64 (B,).

    A direction that cannot change the policy by ``target`` (it is deterministic there) gets the largest η tried.

    Args:
        policies: float64 (B, S, A) or (1, S, A), the old policies.
        directions: float64 (B, S, A).
        weights: float64 (B, S) or (1, S).
        target: KL divergence in nats.
    """
    scale = np.abs(directions).max(axis=(1, 2))
    alive = scale > MIN_DIRECTION
    low, high = np.zeros(len(directions)), np.where(alive, 1.0 / np.where(alive, scale, 1.0), 0.0)
    for _ in range(MAX_DOUBLINGS):
        short = alive & (divergence(policies, directions, weights, high) < target)
        if not short.any():
            break
        low, high = np.where(short, high, low), np.where(short, 2.0 * high, high)
    size = high
    for _ in range(MAX_ITERATIONS):
        reached = divergence(policies, directions, weights, size)
        if not (alive & (np.abs(reached - target) > KL_TOLERANCE * target)).any():
            break
        short = reached < target
        low, high = np.where(short, size, low), np.where(short, high, size)
        # the divergence is nearly quadratic in η; where it is not, the bracket bisects
        with np.errstate(divide="ignore", invalid="ignore"):
            guess = size * np.sqrt(target / reached)
        size = np.where((guess > low) & (guess < high), guess, 0.5 * (low + high))
    return np.where(alive, size, 0.0)
