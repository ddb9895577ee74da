"""Steps of a given KL divergence from the old policy, with states weighted by how often they are visited."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.shared.policy import SharedPolicy

__all__ = ["matched_step", "policy_divergence", "search_step"]

Floats = NDArray[np.float64]
MovedT = TypeVar("MovedT")
KL_TOLERANCE: Final = 1e-6  # relative to the target
MAX_ITERATIONS: Final = 60
MIN_DIRECTION: Final = 1e-12  # a direction without a larger entry counts as 0
GROWTH: Final = 8.0  # largest factor between two trial sizes


def policy_divergence(old: Floats, new: Floats, visits: Floats) -> float:
    """Σ_s visits(s) KL(old(s) ‖ new(s)) in nats; tables (S, A) and weights (S,)."""
    ratio = np.log(np.maximum(old, np.finfo(float).tiny)) - np.log(np.maximum(new, np.finfo(float).tiny))
    return float(visits @ np.einsum("sa,sa->s", old, ratio))


def matched_step(
    policy: SharedPolicy, tasks: Sequence[int], direction: Floats, visits: Floats, target: float
) -> tuple[SharedPolicy, float]:
    """Move the policy along a direction until its KL divergence on these tasks is ``target``; also returns the step size.

    A direction of 0 leaves the policy unchanged (size 0). If no size reaches ``target``, the last size tried is used.

    Args:
        policy: the old policy.
        tasks: tasks on which the divergence is measured.
        direction: float64 (P,).
        visits: float64 (S,), weights of the stacked states of these tasks, with sum 1.
        target: KL divergence in nats.
    """
    scale = float(np.abs(direction).max(initial=0.0))
    if not scale > MIN_DIRECTION:
        return policy, 0.0
    old = np.concatenate(policy.probabilities(tasks))

    def attempt(size: float) -> tuple[SharedPolicy, float]:
        moved = policy.moved(direction, size)
        return moved, policy_divergence(old, np.concatenate(moved.probabilities(tasks)), visits)

    return search_step(attempt, target, 1.0 / scale, tolerance=KL_TOLERANCE, trials=MAX_ITERATIONS)


def search_step(
    attempt: Callable[[float], tuple[MovedT, float]], target: float, first: float, *, tolerance: float, trials: int
) -> tuple[MovedT, float]:
    """Search the step size at which the KL divergence is ``target``.

    Args:
        attempt: makes a step of a size; returns the moved policy and its KL divergence in nats.
        target: KL divergence in nats.
        first: the size to try first.
        tolerance: of the divergence, relative to the target.
        trials: number of sizes to try, at least 1.

    Returns:
        The policy that was moved last, and the step size.
    """
    low, high, size = 0.0, np.inf, first
    for _ in range(trials):
        moved, reached = attempt(size)
        if abs(reached - target) <= tolerance * target:
            break
        low, high = (size, high) if reached < target else (low, size)
        # the divergence is nearly quadratic in the size; where it is not, the bracket is bisected
        guess = size * min(max(np.sqrt(target / reached), 1.0 / GROWTH), GROWTH) if reached > 0.0 else size * GROWTH
        size = guess if low < guess < high else 0.5 * (low + high)
    return moved, size
