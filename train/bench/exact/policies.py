"""Table policies to measure credit on: noisy experts and softmax tables of a given success rate."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, short_repr
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.exact.values import success

__all__ = ["logits_with_success", "noisy_expert", "softmax"]

Floats = NDArray[np.float64]
NOISE = 0.7  # standard deviation of the logits, to which a bias towards optimal actions is added
BISECTIONS = 40
MAX_BIAS = 30.0
TOLERANCE = 0.01  # of J


def softmax(logits: Floats) -> Floats:
    """Softmax along the last axis: float64, the shape of ``logits``."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    probabilities: Floats = powers / powers.sum(axis=-1, keepdims=True)
    return probabilities


def noisy_expert(mdp: FiniteMDP, noise: float) -> Floats:
    """``NoisyExpert(noise)`` as a table: float64 (S, A).

    With probability ``noise``, and always in dead states, a uniformly random action; otherwise one of the optimal actions
    with equal probability.

    Raises:
        ConfigError: ``noise`` lies outside [0, 1].
    """
    if not 0.0 <= noise <= 1.0:
        raise ConfigError(f"noise must lie in [0, 1], got {short_repr(noise)}")
    uniform = np.full((mdp.size, len(mdp.actions)), 1.0 / len(mdp.actions))
    count = mdp.optimal.sum(axis=1, keepdims=True)
    best = np.where(count > 0, mdp.optimal / np.maximum(count, 1), uniform)
    return noise * uniform + (1.0 - noise) * best


def logits_with_success(mdp: FiniteMDP, target: float, rng: np.random.Generator) -> Floats | None:
    """Softmax logits (S, A) with exact success rate J = ``target``, or None if no bias reaches it.

    Logits are N(0, 0.7²) plus a bias on optimal actions, found by bisection. A negative bias is allowed, so that easy
    tasks can start with a low success rate.
    """
    noise = NOISE * rng.standard_normal((mdp.size, len(mdp.actions)))

    def rate(bias: float) -> float:
        return float(success(mdp, softmax(noise + bias * mdp.optimal)))

    low, high = -MAX_BIAS, MAX_BIAS
    if not rate(low) <= target <= rate(high):
        return None
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if rate(middle) < target else (low, middle)
    return noise + high * mdp.optimal if abs(rate(high) - target) <= TOLERANCE else None
