"""Policies with one parameter vector on many tasks, their exact success, and steps of a given KL divergence.

``LinearPolicy`` is a softmax that is linear in features of the state. A table is a linear policy in which every state is its own
feature; a policy that tasks share has features that occur in many of their states. A task describes each of its states by parts, such as
the direction of the goal and the contents of the four neighbouring cells. ``local``: all parts together are one feature, so states with
equal parts, in any task, share their parameters. ``additive``: every part is a feature of its own, so states with one equal part share
some parameters. ``table``: every state of every task is its own feature.

Schemes differ in the scale of their credit, so equal learning rates would not be equal steps; ``matched_step`` makes steps of a given
divergence from the old policy, with states weighted by how often they are visited.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import DataError, unknown_name_error
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.exact.values import softmax
from creditflow.train.bench.exact.values import success as exact_success
from creditflow.train.bench.learning.stack import StackedTasks, split_rows

__all__ = [
    "MAPS",
    "Evaluation",
    "Features",
    "FeaturesOf",
    "LinearPolicy",
    "Policy",
    "make_features",
    "matched_step",
    "policy_divergence",
    "policy_with_success",
]

Floats = NDArray[np.float64]
Parts = NDArray[np.int64]
MAPS: Final = ("local", "additive", "table")
BISECTIONS: Final = 30
MAX_BIAS: Final = 30.0
SCAN_STEP: Final = 0.25  # of the bias, where bisection fails
TOLERANCE: Final = 0.01  # of J


class Policy(Protocol):
    """A policy over a fixed list of tasks with one parameter vector of length P. Immutable."""

    def probabilities(self, tasks: Sequence[int]) -> list[Floats]:
        """π of each task: float64 (S_i, A_i)."""
        ...

    def gradient(self, tasks: Sequence[int], weights: Sequence[Floats]) -> Floats:
        """Σ_i Σ_sa weights_i[s, a] ∇ log π_i(a|s): float64 (P,)."""
        ...

    def moved(self, direction: Any, size: float) -> Self:
        """A policy with ``size`` · ``direction`` (P,) added to the parameters."""
        ...

    def divergence_along(self, tasks: Sequence[int], direction: Floats, visits: Floats) -> Callable[[float], float]:
        """Σ_s visits(s) KL(π(s) ‖ π_η(s)) in nats, by the size η of a step along ``direction`` (P,); visits (S,) are stacked."""
        ...


class FeaturesOf(NamedTuple):
    """The features of some tasks, one task after the other.

    Attributes:
        indices: int64 (S, K), the K features of each state.
        lengths: number of states of each task.
    """

    indices: NDArray[np.int64]
    lengths: list[int]


class Features:
    """The features of every state of every task.

    Args:
        indices: int64 (S_i, K) of each task: the features of each of its acting states, all of weight 1.
        size: F, the number of features.

    Attributes:
        size: as given; the index ``size`` marks states without features, where the policy is always uniform.
    """

    def __init__(self, indices: Sequence[NDArray[np.int64]], size: int) -> None:
        self.size = size
        self._indices = list(indices)
        self._last: tuple[tuple[int, ...], FeaturesOf] | None = None

    def of(self, tasks: Sequence[int]) -> FeaturesOf:
        """The features of some tasks; those of the last call are cached, because many policies have the same tasks."""
        chosen = tuple(tasks)
        if self._last is None or self._last[0] != chosen:
            indices = [self._indices[i] for i in chosen]
            self._last = chosen, FeaturesOf(np.concatenate(indices), [len(rows) for rows in indices])
        return self._last[1]


def make_features(name: str, parts: Sequence[Parts]) -> Features:
    """Make the features of all tasks by the name of a feature map.

    Args:
        name: one of ``MAPS``.
        parts: int64 (S_i, K) of each task, each part ≥ 0; a negative first part marks a state without features.

    Raises:
        ConfigError: the name is unknown.
    """
    if name not in MAPS:
        raise unknown_name_error("feature map", name, MAPS)
    together = np.concatenate(parts)
    seen = together[:, 0] >= 0
    if name == "additive":
        sizes = together[seen].max(axis=0) + 1
        features_of = together[seen] + np.cumsum([0, *sizes[:-1]])
        size = int(sizes.sum())
    elif name == "local":
        classes, inverse = np.unique(together[seen], axis=0, return_inverse=True)
        features_of, size = inverse.reshape(-1, 1), len(classes)
    else:
        size = int(seen.sum())
        features_of = np.arange(size)[:, None]
    indices = np.full((len(together), features_of.shape[1]), size)
    indices[seen] = features_of
    return Features(np.split(indices, np.cumsum([len(of_task) for of_task in parts])[:-1]), size)


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
        chosen = self.features.of(tasks)
        return split_rows(self._table(chosen), chosen.lengths)

    def gradient(self, tasks: Sequence[int], weights: Sequence[Floats]) -> Floats:
        """Σ_i Σ_sa weights_i[s, a] ∇ log π_i(a|s): float64 ((F + 1) · A,)."""
        chosen, weight = self.features.of(tasks), np.concatenate(weights)
        policy = self._table(chosen)
        by_state = (weight - weight.sum(axis=1, keepdims=True) * policy).ravel()
        actions = np.arange(policy.shape[1])
        total = np.zeros(self.theta.size)
        for column in chosen.indices.T:
            flat = (column[:, None] * policy.shape[1] + actions).ravel()
            total += np.bincount(flat, by_state, minlength=self.theta.size)
        total[-policy.shape[1] :] = 0.0
        return total

    def moved(self, direction: Floats, size: float) -> LinearPolicy:
        """A policy with ``size`` · ``direction`` (P,) added to the parameters."""
        theta = self.theta + size * direction.reshape(self.theta.shape)
        return LinearPolicy(theta - theta.max(axis=1, keepdims=True), self.features)

    def divergence_along(self, tasks: Sequence[int], direction: Floats, visits: Floats) -> Callable[[float], float]:
        """Σ_s visits(s) KL(π(s) ‖ π_η(s)) by the size η, in closed form: log Σ_a π_a e^(η g_a) − η Σ_a π_a g_a in one state."""
        features = self.features.of(tasks)
        change = _summed(direction.reshape(self.theta.shape), features)
        states = np.flatnonzero((visits > 0.0) & change.any(axis=1))  # elsewhere the policy stays as it is
        policy = softmax(_summed(self.theta, features)[states])
        change, weights = change[states], visits[states]
        mean = np.einsum("sa,sa->s", policy, change)

        def divergence(size: float) -> float:
            move = size * change
            top = move[:, 0]
            for column in move.T[1:]:  # faster than max over so short an axis
                top = np.maximum(top, column)
            total = np.einsum("sa,sa->s", policy, np.exp(move - top[:, None]))
            log_sum = np.log(np.maximum(total, np.finfo(float).tiny)) + top
            return float(weights @ (log_sum - size * mean))

        return divergence

    def _table(self, features: FeaturesOf) -> Floats:
        return softmax(_summed(self.theta, features))


def _summed(theta: Floats, features: FeaturesOf) -> Floats:
    """Σ_f θ[f, a] over the features of each state: float64 (S, A)."""
    total: Floats = theta[features.indices[:, 0]]
    for column in features.indices.T[1:]:
        total = total + theta[column]
    return total


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
    columns, flat = everything.indices.shape[1], everything.indices.ravel()
    count = np.maximum(np.bincount(flat, minlength=features.size + 1), 1)
    columns_of = [np.repeat(of_action, columns) for of_action in optimal.T]
    totals = [np.bincount(flat, values, minlength=features.size + 1) for values in columns_of]
    preference: Floats = np.stack(totals, axis=1) / count[:, None]
    preference -= preference.mean(axis=1, keepdims=True)
    preference[-1] = 0.0
    chosen = StackedTasks([tasks.mdps[i] for i in train])

    def rate(bias: float) -> float:
        table = np.concatenate(LinearPolicy(bias * preference, features).probabilities(train))
        return float(exact_success(chosen, table).mean())

    bias = _bisected(rate, -MAX_BIAS, MAX_BIAS, success)
    if (
        abs(rate(bias) - success) > TOLERANCE
    ):  # with a large bias a policy may repeat actions without effect: success is not monotone
        tried = np.arange(0.0, MAX_BIAS, SCAN_STEP)
        rates = np.array([rate(bias_tried) for bias_tried in tried.tolist()])
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


PolicyT = TypeVar("PolicyT", bound=Policy)
MIN_DIRECTION: Final = 1e-12  # a direction without a larger entry counts as 0
GROWTH: Final = 8.0  # largest factor between two trial sizes


PRECISION: Final = 1e-6  # of the divergence of a step, relative to the target
TRIALS: Final = 60  # of sizes; the last one is used where none is that precise


def matched_step(
    policy: PolicyT, tasks: Sequence[int], direction: Floats, visits: Floats, target: float
) -> tuple[PolicyT, float]:
    """Move the policy along a direction until its KL divergence on these tasks is ``target``; also returns the step size.

    A direction of 0 leaves the policy unchanged (size 0).

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
    divergence = policy.divergence_along(tasks, direction, visits)
    low, high, size = 0.0, np.inf, 1.0 / scale
    for _ in range(TRIALS - 1):
        reached = divergence(size)
        if abs(reached - target) <= PRECISION * target:
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


CHUNK: Final = 16  # policies evaluated together: as many as stay in a core's cache


class Evaluation:
    """Exact success of policies, which are added one at a time and evaluated in batches.

    Args:
        mdps: all tasks.
        train, held_out: indices of the training tasks and of the held-out tasks; the latter may be empty.
    """

    def __init__(self, mdps: Sequence[FiniteMDP], train: Sequence[int], held_out: Sequence[int]) -> None:
        self._tasks, self._trained = [*train, *held_out], len(train)
        self._stack = StackedTasks([mdps[i] for i in self._tasks])
        self._waiting, self._success = list[Floats](), list[Floats]()

    def add(self, policy: Policy) -> int:
        """Add a policy; returns its number."""
        self._waiting.append(np.concatenate(policy.probabilities(self._tasks)))
        if len(self._waiting) == CHUNK:
            self._finish()
        return len(self._success) + len(self._waiting) - 1

    def means(self, numbers: Sequence[int]) -> Floats:
        """float64 (n, 2): mean success of these policies on the training tasks, and on the held-out tasks (nan if there are none)."""
        self._finish()
        rates = np.array([self._success[i] for i in numbers]).reshape(len(numbers), -1)
        train, held_out = rates[:, : self._trained], rates[:, self._trained :]
        held_out_mean = held_out.mean(axis=1) if held_out.size else np.full(len(numbers), np.nan)
        return np.stack([train.mean(axis=1), held_out_mean], axis=1)

    def _finish(self) -> None:
        if self._waiting:
            self._success += list(exact_success(self._stack, np.stack(self._waiting)))
            self._waiting = []
