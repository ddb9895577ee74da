"""Controls that read no states: an outcome discounted by the turns to go, and an outcome against others at the same turn.

A scheme that compares states should beat both. On tasks with short solutions a discount alone already favours the later turns
and the shorter rollouts; the lead of a scheme over ``stateless`` is what it learns from states.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, short_repr
from creditflow.train.bench.controls import CreditFunction
from creditflow.wrappers.credit import Credit
from creditflow.wrappers.credit.outcome import outcome_scores
from creditflow.wrappers.records.group import Group

__all__ = ["position_baseline", "stateless_discount"]

Outcome = Literal["return", "success", "score"]


def stateless_discount(
    discount: float = 0.9, *, baseline: Literal["none", "group"] = "none", outcome: Outcome = "score"
) -> CreditFunction:
    """c_it = R_i γ^(T_i − 1 − t): the outcome, discounted by the turns that follow turn t of T_i.

    Args:
        discount: γ in [0, 1].
        baseline: "none", or "group" to subtract the mean of c over all turns of the group.
        outcome: R_i: the graded "score" in [0, 1], "success" or "return".

    Returns:
        A function Group → Credit.

    Raises:
        ConfigError: the discount lies outside [0, 1], or the baseline is unknown.
    """
    _check_discount(discount)
    if baseline not in ("none", "group"):
        raise ConfigError(f"stateless_discount: baseline must be 'none' or 'group', got {short_repr(baseline)}")

    def assign(group: Group) -> Credit:
        returns = _returns(group, discount, outcome)
        if baseline == "group" and returns.size:
            returns = returns - returns.mean()
        return _credit(group, returns)

    return assign


def position_baseline(discount: float = 1.0, *, outcome: Outcome = "score") -> CreditFunction:
    """c_it = G_it − mean_j G_jt with G_it = R_i γ^(T_i − 1 − t), over the rollouts j that have a turn t.

    A turn that no other rollout reaches gets 0. With γ = 1 rollouts differ by outcome alone.

    Args:
        discount: γ in [0, 1].
        outcome: R_i: the graded "score" in [0, 1], "success" or "return".

    Returns:
        A function Group → Credit.

    Raises:
        ConfigError: the discount lies outside [0, 1].
    """
    _check_discount(discount)

    def assign(group: Group) -> Credit:
        episodes = group.episode_index
        position = np.arange(len(episodes.stored)) - episodes.offsets[episodes.episode]
        returns = _returns(group, discount, outcome)
        mean = np.bincount(position, returns) / np.maximum(np.bincount(position), 1)
        return _credit(group, returns - mean[position])

    return assign


def _check_discount(discount: float) -> None:
    if not 0.0 <= discount <= 1.0:
        raise ConfigError(f"discount must lie in [0, 1], got {short_repr(discount)}")


def _returns(group: Group, discount: float, outcome: Outcome) -> NDArray[np.float64]:
    """float64 (M,): R_i γ^(turns to go) of the turns of full episodes."""
    episodes = group.episode_index
    to_go = episodes.offsets[1:][episodes.episode] - 1 - np.arange(len(episodes.stored))
    returns: NDArray[np.float64] = outcome_scores(group, outcome)[episodes.episode] * discount**to_go
    return returns


def _credit(group: Group, of_episodes: NDArray[np.float64]) -> Credit:
    """Credit from one number per turn of full episodes (M,)."""
    return Credit.of(group, outcome=np.zeros(group.arrays.size), step=of_episodes[group.episode_index.own])
