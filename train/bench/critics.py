"""Critics for the annotation sources: success probabilities fitted to what a state shows, and exact ones with an error of a given size.

A critic estimates V^π(s, turns left), the probability that an episode succeeds from a state on. ``FittedCritic`` is a logistic regression, or a
network with one hidden layer, on features of the state and the number of turns left: it is trained on the outcomes of *earlier* rollouts, as a success
model is. ``noisy`` adds an error to the exact value's log odds, one normal number per state and number of turns left, which stays the
same while the policy learns: the error of a model, not of a sample.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.exact.simulate import ArrayGroup

__all__ = ["HIDDEN", "FittedCritic", "StateFeatures", "noisy", "one_hot"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
REMEMBERED: Final = 64  # groups that a fit uses, the latest
STEPS: Final = 10  # of Adam, per update
HIDDEN: Final = 16
RATE: Final = 0.03
MIN_PROBABILITY: Final = 1e-3  # bound before the logarithm of odds


class StateFeatures(NamedTuple):
    """What a critic sees of a state.

    Attributes:
        size: F, the number of features.
        of: a task's tables → int64 (S, K), the features of each acting state, −1 for none.
    """

    size: int
    of: Callable[[FiniteMDP], Indices]


def one_hot(mdps: Sequence[FiniteMDP], parts: Sequence[Indices]) -> StateFeatures:
    """One feature for each value of each part.

    Args:
        mdps: the tasks.
        parts: int64 (S_i, K) of each; a negative part is none.
    """
    together = np.concatenate(parts)
    sizes = np.maximum(together.max(axis=0) + 1, 0)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    indices = {
        id(mdp): np.where(of_task >= 0, of_task + starts[:-1], -1) for mdp, of_task in zip(mdps, parts, strict=True)
    }
    return StateFeatures(int(starts[-1]), lambda mdp: indices[id(mdp)])


def noisy(value: Floats, mdp: FiniteMDP, noise: float) -> Floats:
    """float64 (H+1, S): success probabilities whose log odds have a normal error of this standard deviation.

    The values of row 0, at the turn limit, and those of terminal states are outcomes and have no error.

    Args:
        value: float64 (H+1, S+E), exact.
        mdp: the task, whose name seeds the error.
        noise: standard deviation, ≥ 0.
    """
    seed = int.from_bytes(blake2b(mdp.name.encode(), digest_size=8).digest(), "big")
    error = np.random.default_rng([seed, 51]).normal(size=(value.shape[0], mdp.size))
    bounded = np.clip(value[:, : mdp.size], MIN_PROBABILITY, 1.0 - MIN_PROBABILITY)
    odds = np.log(bounded) - np.log1p(-bounded)
    out = value.copy()
    out[1:, : mdp.size] = _sigmoid(odds + noise * error)[1:] if noise else value[1:, : mdp.size]
    return out


class FittedCritic:
    """A critic that is fitted to the outcomes of rollouts.

    Args:
        features: of the states.
        horizon: the turn limit.
        hidden: size of the hidden layer; 0 for logistic regression.
    """

    def __init__(self, features: StateFeatures, horizon: int, hidden: int) -> None:
        self._features, self._hidden = features, hidden
        self._none = features.size + horizon + 1  # the place of absent features, whose weights stay 0
        rng = np.random.default_rng(0)
        shape = (self._none + 1, max(hidden, 1))
        first = rng.normal(scale=0.3, size=shape) if hidden else np.zeros(shape)
        first[-1] = 0.0
        self._weights = [first, np.zeros(max(hidden, 1) + 1)]
        self._moments = [(np.zeros_like(w), np.zeros_like(w)) for w in self._weights]
        self._count = 0
        self._data: deque[tuple[Indices, Floats]] = deque(maxlen=REMEMBERED)
        self._fresh = False

    def predict(self, group: ArrayGroup) -> tuple[Floats, Floats]:
        """f before and after every turn, each float64 (N,); after the last turn of a rollout it is the outcome."""
        self._fit()
        before = self._probability(self._columns(group.mdp, group.number, group.left))
        arrays = group.arrays
        after = np.append(before[1:], 0.0)
        return before, np.where(arrays.last, arrays.success[arrays.trajectory].astype(np.float64), after)

    def add(self, group: ArrayGroup) -> None:
        """Remember the outcomes of a group for later fits."""
        columns = self._columns(group.mdp, group.number, group.left)
        self._data.append((columns, group.arrays.success[group.arrays.trajectory].astype(np.float64)))
        self._fresh = True

    def _columns(self, mdp: FiniteMDP, states: NDArray[np.integer], left: NDArray[np.integer]) -> Indices:
        seen = self._features.of(mdp)[states]
        return np.column_stack([np.where(seen >= 0, seen, self._none), self._features.size + left]).astype(np.int64)

    def _layers(self, columns: Indices) -> tuple[Floats, Floats]:
        """The hidden layer (or the sum of the weights) and the log odds."""
        total = self._weights[0][columns].sum(axis=1)
        if not self._hidden:
            return total, total[:, 0]
        active = np.tanh(total)
        return active, active @ self._weights[1][:-1] + self._weights[1][-1]

    def _probability(self, columns: Indices) -> Floats:
        return _sigmoid(self._layers(columns)[1])

    def _fit(self) -> None:
        if not self._fresh:
            return
        self._fresh = False
        columns = np.concatenate([self._wide(remembered) for remembered, _ in self._data])
        outcome = np.concatenate([remembered for _, remembered in self._data])
        for _ in range(STEPS):
            active, odds = self._layers(columns)
            gap = (_sigmoid(odds) - outcome) / len(outcome)
            back = gap[:, None] if not self._hidden else gap[:, None] * self._weights[1][:-1] * (1.0 - active**2)
            first: Floats = np.stack(
                [
                    np.bincount(
                        columns.ravel(), np.repeat(back[:, j], columns.shape[1]), minlength=self._none + 1
                    ).astype(np.float64)
                    for j in range(back.shape[1])
                ],
                axis=1,
            )
            first[-1] = 0.0
            second = np.append(active.T @ gap, gap.sum()) if self._hidden else np.zeros_like(self._weights[1])
            self._step([first, second])

    def _wide(self, columns: Indices) -> Indices:
        """The columns padded to the most that any remembered group has, so that groups with other widths stack."""
        most = max(remembered.shape[1] for remembered, _ in self._data)
        return np.pad(columns, ((0, 0), (0, most - columns.shape[1])), constant_values=self._none)

    def _step(self, gradients: list[Floats]) -> None:
        self._count += 1
        for weight, gradient, (mean, square) in zip(self._weights, gradients, self._moments, strict=True):
            mean += 0.1 * (gradient - mean)
            square += 0.001 * (gradient**2 - square)
            unbiased = mean / (1 - 0.9**self._count), square / (1 - 0.999**self._count)
            weight -= RATE * unbiased[0] / (np.sqrt(unbiased[1]) + 1e-8)


def _sigmoid(x: Floats) -> Floats:
    half: Floats = 0.5 * (1.0 + np.tanh(0.5 * x))
    return half
