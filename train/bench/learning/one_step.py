"""Quality of credit at one policy, in the policy's own parameters: direction, improvement, bias and variance (M1, M2, M3).

g is the gradient of the trainer's loss on one batch of tasks with a method's credit, and g* = ∇J the exact gradient of the
mean success on all training tasks. Gradients are processed one at a time, so that policies may have many parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.learning.batch import Batch, Sampling
from creditflow.train.bench.learning.evaluation import Evaluation
from creditflow.train.bench.learning.loss import ascent_weights
from creditflow.train.bench.learning.policy import Policy
from creditflow.train.bench.learning.stack import StackedTasks
from creditflow.train.bench.learning.steps import DEFAULT_SEARCH, Search, matched_step
from creditflow.wrappers.credit import Credit

__all__ = ["ALONG_GRADIENT", "KLS", "GradientMoments", "OneStep", "Start", "coverage", "dead_groups"]

Floats = NDArray[np.float64]
PolicyT = TypeVar("PolicyT", bound=Policy)
Step = Callable[[Floats], Floats]
KLS: Final = (0.001, 0.01)
ALONG_GRADIENT: Final[Mapping[str, Step]] = {"gradient": lambda gradient: gradient}


class BiasVariance(NamedTuple):
    """M3: squared bias and variance of sampled gradients, after scaling by the best factor α* = ⟨E g, g*⟩ / ‖E g‖².

    Attributes:
        bias2: ‖α* E g − g*‖² / ‖g*‖² = 1 − cos²(E g, g*).
        variance: α*² tr Cov(g) / ‖g*‖²; inf where E g and g* are orthogonal.
    """

    bias2: float
    variance: float


class GradientMoments:
    """Moments of a stream of sampled gradients relative to g*, from which M1 and M3 follow.

    Args:
        exact: float64 (P,), g*, not 0.
    """

    def __init__(self, exact: Floats) -> None:
        self._exact, self._exact_norm = exact, float(np.linalg.norm(exact))
        self._sum, self._squares, self._cosines, self._count = np.zeros_like(exact), 0.0, 0.0, 0

    def add(self, gradient: Floats) -> None:
        """Add one gradient, float64 (P,)."""
        square = float(gradient @ gradient)
        self._sum += gradient
        self._squares += square
        if square > 0.0:
            self._cosines += float(gradient @ self._exact) / (math.sqrt(square) * self._exact_norm)
        self._count += 1

    def values(self) -> dict[str, float]:
        """M1 and M3.

        Returns:
            ``cos_mean``: cos(E g, g*); the norm of E g is corrected for the sampling noise left in the mean of n gradients.
            ``cos_batch``: mean over batches of cos(g, g*), 0 where g = 0. ``bias2``, ``variance``: see ``BiasVariance``.
        """
        mean = self._sum / self._count
        noise = max(self._squares - self._count * float(mean @ mean), 0.0) / max(self._count - 1, 1)  # tr Cov(g)
        along = float(mean @ self._exact / self._exact_norm)
        # for the mean ḡ of n gradients, E‖ḡ‖² = ‖E g‖² + tr Cov / n; by Cauchy–Schwarz, ‖E g‖² ≥ ⟨E g, g*⟩² / ‖g*‖²
        norm2 = max(float(mean @ mean) - noise / self._count, along**2)
        error = BiasVariance(1.0, float("inf"))
        if norm2 > 0.0 and along != 0.0:
            # α* = along ‖g*‖ / norm2, so α*² / ‖g*‖² = (along / norm2)²
            error = BiasVariance(1.0 - along**2 / norm2, (along / norm2) ** 2 * noise)
        return {
            "cos_mean": float(along / np.sqrt(norm2)) if norm2 > 0.0 else 0.0,
            "cos_batch": self._cosines / self._count,
            **error._asdict(),
        }


class Start(Generic[PolicyT]):
    """The policy at which methods are measured: g*, and gains of exact success by steps of given KL divergence (M2).

    Args:
        policy: the policy that is sampled.
        mdps: all tasks.
        train, held_out: indices of the training tasks, whose mean success has the gradient g*, and of the held-out tasks.
        kls: KL divergences of the steps, in nats per turn.
        steps: by name, how the direction of a step follows from a gradient (P,).
        search: how the size of a step is searched for.

    Attributes:
        exact: float64 (P,), g*.
    """

    def __init__(
        self,
        policy: PolicyT,
        mdps: Sequence[FiniteMDP],
        train: Sequence[int],
        held_out: Sequence[int],
        *,
        kls: Sequence[float] = KLS,
        steps: Mapping[str, Step] = ALONG_GRADIENT,
        search: Search = DEFAULT_SEARCH,
    ) -> None:
        self.policy, self.kls, self._steps, self._search = policy, tuple(kls), steps, search
        self._evaluation, self._train = Evaluation(mdps, train, held_out), list(train)
        stack = StackedTasks([mdps[i] for i in train])
        table = np.concatenate(policy.probabilities(train))
        self.exact = policy.gradient(train, stack.split(stack.gradient_weights(table) / len(train)))
        turns = stack.expected_turns(table[None])[0]
        self._visits: Floats = turns / turns.sum()
        self._start = self._evaluation.add(policy)
        self._along = self.step(self.exact)

    def step(
        self, gradient: Floats, tasks: Sequence[int] | None = None, visits: Floats | None = None
    ) -> dict[tuple[str, float], int]:
        """Take every kind of step, by kind and KL divergence on these tasks (None: on the training tasks).

        Returns:
            Numbers, for ``gains``.
        """
        tasks, visits = self._train if tasks is None else tasks, self._visits if visits is None else visits
        numbers = {}
        for kind, direction_of in self._steps.items():
            direction = direction_of(gradient)
            for kl in self.kls:
                moved, _ = matched_step(self.policy, tasks, direction, visits, kl, self._search)
                numbers[kind, kl] = self._evaluation.add(moved)
        return numbers

    def gains(self, numbers: Sequence[int]) -> Floats:
        """float64 (2,): mean gain of exact success on the training tasks and on the held-out tasks (nan if there are none)."""
        start = self._evaluation.means([self._start])
        gains: Floats = (self._evaluation.means(numbers) - start).mean(axis=0)
        return gains

    def exact_gains(self, kind: str, kl: float) -> Floats:
        """float64 (2,): the gain of a step along g*."""
        return self.gains([self._along[kind, kl]])

    def relative_gains(self, numbers: Sequence[int], kl: float) -> Floats:
        """float64 (2,): gains of steps along gradients, relative to that of g* on the training tasks at the same KL divergence."""
        relative: Floats = self.gains(numbers) / self.exact_gains("gradient", kl)[0]
        return relative


class OneStep(Generic[PolicyT]):
    """The measurements of one method so far.

    Args:
        start: the policy.
        steps: number of batches whose gradient is followed by steps; None for all.
    """

    def __init__(self, start: Start[PolicyT], steps: int | None = None) -> None:
        self._start, self._limit = start, steps
        self._moments, self._steps = GradientMoments(start.exact), list[dict[tuple[str, float], int]]()
        self._coverage = list[float]()
        self._dead = list[float]()

    def add(self, batch: Batch, credits_: Sequence[Credit], sampling: Sampling, *, unit: bool = False) -> None:
        """Measure one batch with a method's credit; ``unit``: divided by its root mean square over the batch."""
        policy, turns = self._start.policy, batch.turns_in_loss(credits_, sampling)
        weights = ascent_weights(turns.scaled() if unit else turns, batch.policy, sampling.loss)
        gradient = policy.gradient(batch.tasks, batch.split(weights))
        self._moments.add(gradient)
        if self._limit is None or len(self._steps) < self._limit:
            self._steps.append(self._start.step(gradient, batch.tasks, batch.visits))
        self._coverage.append(coverage(credits_))
        self._dead.append(dead_groups(credits_))

    def moments(self) -> dict[str, float]:
        """M1 and M3; see ``GradientMoments.values``."""
        return self._moments.values()

    def steps(self, kind: str, kl: float) -> list[int]:
        """Numbers of the steps of a kind, for ``Start.gains``."""
        return [numbers[kind, kl] for numbers in self._steps]

    def measures(self) -> dict[str, Any]:
        """M1, M2 relative to g* at both of ``KLS``, M3, and the mean coverage and fraction of groups without any credit."""
        (small, held_out_small), (large, held_out_large) = (
            self._start.relative_gains(self.steps("gradient", kl), kl).tolist() for kl in self._start.kls
        )
        return self.moments() | {
            "gain_small": small,
            "gain": large,
            "held_out_gain_small": held_out_small,
            "held_out_gain": held_out_large,
            "coverage": float(np.mean(self._coverage)),
            "dead_groups": float(np.mean(self._dead)),
        }


def coverage(credits_: Sequence[Credit]) -> float:
    """Fraction of turns whose credit is not 0."""
    turns = sum(len(credit.flat_advantages) for credit in credits_)
    covered = sum(int(np.count_nonzero(credit.flat_advantages)) for credit in credits_)
    return covered / turns if turns else float("nan")


def dead_groups(credits_: Sequence[Credit]) -> float:
    """Fraction of groups without any credit."""
    return float(np.mean([not credit.flat_advantages.any() for credit in credits_]))
