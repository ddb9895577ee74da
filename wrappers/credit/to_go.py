"""Returns to go, compared by the number of the turn: what the schemes without states share.

The functions work on the M turns of full episodes (``Group.episode_index``), so that a branch counts as the episode that it ends.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers.credit.normalize import SingletonScore, normalize
from creditflow.wrappers.records.group import Group, backward_sums

__all__ = ["against_others", "centred", "full_rewards", "returns_to_go"]

Floats = NDArray[np.float64]


def full_rewards(group: Group) -> Floats:
    """float64 (M,): the rewards of the turns of full episodes."""
    return group.arrays.reward[group.episode_index.stored]


def returns_to_go(group: Group, rewards: Floats, discount: float) -> Floats:
    """float64 (M,): G_it = Σ_{k ≥ t} γ^(k − t) r_ik of rewards (M,)."""
    return backward_sums(rewards, group.episode_index.offsets, discount)


def centred(group: Group, returns: Floats, labels: NDArray[np.int64], *, singleton: SingletonScore = "zero") -> Floats:
    """float64 (M,): returns (M,) minus the mean of the turns with the same label, their own included."""
    return normalize(
        returns,
        labels.astype(np.int32),
        int(labels.max(initial=0)) + 1,
        scale="none",
        singleton=singleton,
        quantity="return to go",
        rows=group.episode_index.stored,
    )


def against_others(group: Group, returns: Floats) -> Floats:
    """float64 (M,): returns (M,) minus the mean of the other rollouts that have a turn of this number.

    Given that rollout i takes turn t, the other rollouts do not depend on what it does there, so the baseline is unbiased, also
    where the policy decides when to stop. Where no other rollout has the turn, nothing is subtracted, which is unbiased too.
    """
    number = group.episode_index.number
    count = np.bincount(number, minlength=1)[number]
    # n / (n − 1) (x − mean) = x − mean of the others
    return centred(group, returns, number, singleton="raw") * np.where(count > 1, count / np.maximum(count - 1, 1), 1.0)
