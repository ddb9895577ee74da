"""Turn-level group returns: step and outcome rewards normalised over the group, steps summed backwards.

The estimator that IGPO's and PiCA's released code share for training without a critic: the outcome's normalised value
is added, undiscounted, to every turn; the turn that ends the episode has it alone.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import unknown_name

__all__ = ["group_turn_returns", "population_normalise"]

Floats = NDArray[np.float64]


def population_normalise(x: Floats, *, eps: float = 1e-6) -> Floats:
    """(x − mean) / (√(variance + 1e-8) + eps), population variance; a lone value keeps deviation 1."""
    if not len(x):
        return x.copy()
    std = float(np.sqrt(x.var() + 1e-8)) if len(x) > 1 else 1.0
    out: Floats = (x - x.mean()) / (std + eps)
    return out


def group_turn_returns(
    steps: list[Floats],
    outcomes: Floats,
    *,
    mode: Literal["separate", "joint"] = "separate",
    discount: float = 1.0,
    eps: float = 1e-6,
) -> tuple[list[Floats], Floats]:
    """Normalised step returns and outcomes of one group.

    Args:
        steps: G arrays (S_i,), rewards of each trajectory's steps, its last turn left out.
        outcomes: float64 (G,), the reward of each last turn.
        mode: "separate" normalises steps and outcomes each by their own statistics, "joint" by common ones.
        discount: γ of the sum over steps.
        eps: added to standard deviations.

    Returns:
        G arrays (S_i,): Σ_k≥t γ^(k−t) z_k over the steps; and the normalised outcomes (G,). The advantage of a step is
        its return plus the trajectory's outcome.

    Raises:
        ConfigError: an unknown mode.
    """
    if mode not in ("separate", "joint"):
        raise unknown_name("value of mode", str(mode), ["separate", "joint"])
    flat = np.concatenate([*steps, np.zeros(0)])
    if mode == "joint":
        both = population_normalise(np.concatenate([flat, outcomes]), eps=eps)
        flat, ends = both[: len(flat)], both[len(flat) :]
    else:
        flat, ends = population_normalise(flat, eps=eps), population_normalise(outcomes, eps=eps)
    parts = np.split(flat, np.cumsum([len(own) for own in steps])[:-1])
    returns = [
        np.array(list(accumulate(own[::-1].tolist(), lambda after, reward: reward + discount * after))[::-1])
        for own in parts
    ]
    return returns, ends
