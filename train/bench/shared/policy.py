"""Policies whose parameters many tasks share: the interface, and a softmax that is linear in features of the state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import DataError
from creditflow.train.bench.exact.policies import softmax
from creditflow.train.bench.shared.features import Features, FeaturesOf
from creditflow.train.bench.shared.stack import StackedTasks, split_rows

__all__ = ["LinearPolicy", "SharedPolicy", "policy_with_success"]

Floats = NDArray[np.float64]
BISECTIONS: Final = 30
MAX_BIAS: Final = 30.0
SCAN_STEP: Final = 0.25  # of the bias, where bisection fails
TOLERANCE: Final = 0.01  # of J


class SharedPolicy(Protocol):
    """A policy over a fixed list of tasks with one parameter vector of length P. Immutable."""

    def probabilities(self, tasks: Sequence[int]) -> list[Floats]:
        """π of each task: float64 (S_i, A_i)."""
        ...

    def gradient(self, tasks: Sequence[int], weights: Sequence[Floats]) -> Floats:
        """Σ_i Σ_sa weights_i[s, a] ∇ log π_i(a|s): float64 (P,)."""
        ...

    def moved(self, direction: Floats, size: float) -> SharedPolicy:
        """A policy with ``size`` · ``direction`` (P,) added to the parameters."""
        ...


class LinearPolicy:
    """π(a|s) = softmax_a Σ_f θ[f, a] over the features f of s; uniform in a state without features.

    Args:
        theta: float64 (F + 1, A); the last row, for states without features, is always 0.
        features: the features of every state of every task.
    """

    def __init__(self, theta: Floats, features: Features) -> None:
        self.theta, self.features = theta, features

    def probabilities(self, tasks: Sequence[int]) -> list[Floats]:
        """π of each task: float64 (S_i, A)."""
        found = self.features.of(tasks)
        return split_rows(self._table(found), found.lengths)

    def gradient(self, tasks: Sequence[int], weights: Sequence[Floats]) -> Floats:
        """Σ_i Σ_sa weights_i[s, a] ∇ log π_i(a|s): float64 ((F + 1) · A,)."""
        found, weight = self.features.of(tasks), np.concatenate(weights)
        policy = self._table(found)
        by_state = (weight - weight.sum(axis=1, keepdims=True) * policy).ravel()
        actions = np.arange(policy.shape[1])
        total = np.zeros(self.theta.size)
        for column in found.indices.T:
            place = (column[:, None] * policy.shape[1] + actions).ravel()
            total += np.bincount(place, by_state, minlength=self.theta.size)
        total[-policy.shape[1] :] = 0.0
        return total

    def moved(self, direction: Floats, size: float) -> LinearPolicy:
        """A policy with ``size`` · ``direction`` (P,) added to the parameters."""
        theta = self.theta + size * direction.reshape(self.theta.shape)
        return LinearPolicy(theta - theta.max(axis=1, keepdims=True), self.features)

    def _table(self, found: FeaturesOf) -> Floats:
        logits = self.theta[found.indices[:, 0]]
        for column in found.indices.T[1:]:
            logits = logits + self.theta[column]
        return softmax(logits)


def policy_with_success(tasks: StackedTasks, features: Features, train: Sequence[int], success: float) -> LinearPolicy:
    """A policy with mean exact success J = ``success`` on the tasks ``train``.

    θ[f, a] is a scale, found by bisection, times the centred fraction of the states with feature f, over all tasks, in which a
    is optimal: the policy prefers the actions that are often optimal in states with the same features.

    Args:
        tasks: all tasks.
        features: features of their states.
        train: indices of the tasks whose mean success counts.
        success: J0 in (0, 1).

    Raises:
        DataError: no scale gives this success rate; the features say too little about the optimal actions.
    """
    everything = features.of(range(len(tasks.mdps)))
    optimal = np.concatenate([mdp.optimal for mdp in tasks.mdps]).astype(np.float64)
    columns, place = everything.indices.shape[1], everything.indices.ravel()
    count = np.maximum(np.bincount(place, minlength=features.size + 1), 1)
    columns_of = [np.repeat(of_action, columns) for of_action in optimal.T]
    totals = [np.bincount(place, values, minlength=features.size + 1) for values in columns_of]
    preference: Floats = np.stack(totals, axis=1) / count[:, None]
    preference -= preference.mean(axis=1, keepdims=True)
    preference[-1] = 0.0
    chosen = StackedTasks([tasks.mdps[i] for i in train])

    def rate(bias: float) -> float:
        table = np.concatenate(LinearPolicy(bias * preference, features).probabilities(train))
        return float(chosen.success(table[None]).mean())

    bias = _bisected(rate, -MAX_BIAS, MAX_BIAS, success)
    if (
        abs(rate(bias) - success) > TOLERANCE
    ):  # with a large bias a policy may repeat actions without effect: success is not monotone
        tried = np.arange(0.0, MAX_BIAS, SCAN_STEP)
        rates = np.array([rate(one) for one in tried.tolist()])
        above = int(np.argmax(rates >= success))
        if rates[above] < success or not above:
            raise DataError(
                f"no initial policy over these features has a success rate of {success}; the nearest has "
                f"{max(rate(bias), rates.max()):.3f}; choose another success rate or feature map"
            )
        bias = _bisected(rate, float(tried[above - 1]), float(tried[above]), success)
    return LinearPolicy(bias * preference, features)


def _bisected(rate: Callable[[float], float], low: float, high: float, success: float) -> float:
    """The upper end of the bracket in which ``rate`` crosses ``success``, if it rises once."""
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if rate(middle) < success else (low, middle)
    return high
