"""Steps of a given KL divergence from the old policy, with states weighted by how often they are visited.

Schemes differ in the scale of their credit, so equal learning rates would not be equal steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.learning.policy import Policy

__all__ = ["Search", "matched_step", "policy_divergence"]

Floats = NDArray[np.float64]
PolicyT = TypeVar("PolicyT", bound=Policy)
MIN_DIRECTION: Final = 1e-12  # a direction without a larger entry counts as 0
GROWTH: Final = 8.0  # largest factor between two trial sizes


@dataclass(frozen=True, slots=True)
class Search:
    """How a step size is searched for.

    Attributes:
        tolerance: of the divergence, relative to the target.
        trials: number of sizes to try, at least 1; the last one is used where none is within the tolerance.
        first: the size to try first, relative to that which changes the largest parameter by 1.
    """

    tolerance: float = 1e-6
    trials: int = 60
    first: float = 1.0


DEFAULT_SEARCH: Final = Search()


def matched_step(
    policy: PolicyT,
    tasks: Sequence[int],
    direction: Floats,
    visits: Floats,
    target: float,
    search: Search = DEFAULT_SEARCH,
) -> tuple[PolicyT, float]:
    """Move the policy along a direction until its KL divergence on these tasks is ``target``; also returns the step size.

    A direction of 0 leaves the policy unchanged (size 0).

    Args:
        policy: the old policy.
        tasks: tasks on which the divergence is measured.
        direction: float64 (P,).
        visits: float64 (S,), weights of the stacked states of these tasks, with sum 1.
        target: KL divergence in nats.
        search: how the size is searched for.
    """
    scale = float(np.abs(direction).max(initial=0.0))
    if not scale > MIN_DIRECTION:
        return policy, 0.0
    divergence = policy.divergence_along(tasks, direction, visits)
    low, high, size = 0.0, np.inf, search.first / scale
    for _ in range(search.trials - 1):
        reached = divergence(size)
        if abs(reached - target) <= search.tolerance * target:
            break
        low, high = (size, high) if reached < target else (low, size)
        # the divergence is nearly quadratic in the size; where it is not, the bracket is bisected
        factor = np.sqrt(target / reached) if reached > 0.0 else GROWTH
        guess = size * float(min(max(factor, 1.0 / GROWTH), GROWTH))
        size = guess if low < guess < high else 0.5 * (low + high)
    return policy.moved(direction, size), size


def policy_divergence(old: Floats, new: Floats, visits: Floats) -> float:
    """Σ_s visits(s) KL(old(s) ‖ new(s)) in nats; tables (S, A) and weights (S,)."""
    ratio = np.log(np.maximum(old, np.finfo(float).tiny)) - np.log(np.maximum(new, np.finfo(float).tiny))
    return float(visits @ np.einsum("sa,sa->s", old, ratio))
