"""Quality of credit at one policy, in the policy's own parameters: direction, gain, bias and variance.

g is the gradient of the trainer's loss on one batch of tasks with a method's credit, and g* = ∇J the exact gradient of the
mean success on all training tasks. Gradients are processed one at a time, so that policies may have many parameters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.exact.values import policy_gradient, visitation
from creditflow.train.bench.learning.batch import Batch, Sampling, ascent_weights
from creditflow.train.bench.learning.policy import Evaluation, Policy, matched_step
from creditflow.train.bench.learning.stack import StackedTasks
from creditflow.wrappers.credit import Credit

__all__ = ["KLS", "GradientMoments", "Measured", "OneStep", "Start"]

Floats = NDArray[np.float64]
KLS: Final = (0.001, 0.01)


class GradientMoments:
    """Moments of a stream of sampled gradients relative to g*, from which direction, bias and variance follow.

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
        """Direction, bias and variance.

        Returns:
            ``cos_mean``: cos(E g, g*); the norm of E g is corrected for the sampling noise left in the mean of n gradients.
            ``cos_batch``: mean over batches of cos(g, g*), 0 where g = 0.
            After scaling by the best factor α* = ⟨E g, g*⟩ / ‖E g‖²: ``bias2``: ‖α* E g − g*‖² / ‖g*‖² = 1 − cos²(E g, g*);
            ``variance``: α*² tr Cov(g) / ‖g*‖², inf where E g and g* are orthogonal.
        """
        mean = self._sum / self._count
        noise = max(self._squares - self._count * float(mean @ mean), 0.0) / max(self._count - 1, 1)  # tr Cov(g)
        along = float(mean @ self._exact / self._exact_norm)
        # for the mean ḡ of n gradients, E‖ḡ‖² = ‖E g‖² + tr Cov / n; by Cauchy–Schwarz, ‖E g‖² ≥ ⟨E g, g*⟩² / ‖g*‖²
        norm2 = max(float(mean @ mean) - noise / self._count, along**2)
        bias2, variance = 1.0, math.inf
        if norm2 > 0.0 and along != 0.0:
            # α* = along ‖g*‖ / norm2, so α*² / ‖g*‖² = (along / norm2)²
            bias2, variance = 1.0 - along**2 / norm2, (along / norm2) ** 2 * noise
        return {
            "cos_mean": float(along / np.sqrt(norm2)) if norm2 > 0.0 else 0.0,
            "cos_batch": self._cosines / self._count,
            "bias2": bias2,
            "variance": variance,
        }


class Start:
    """The policy at which methods are measured: g*, and gains of exact success by steps of given KL divergence.

    Args:
        policy: the policy that is sampled.
        mdps: all tasks.
        train, held_out: indices of the training tasks, whose mean success has the gradient g*, and of the held-out tasks.
        kls: KL divergences of the steps, in nats per turn.

    Attributes:
        exact: float64 (P,), g*.
    """

    def __init__(
        self,
        policy: Policy,
        mdps: Sequence[FiniteMDP],
        train: Sequence[int],
        held_out: Sequence[int],
        *,
        kls: Sequence[float] = KLS,
    ) -> None:
        self.policy, self.kls = policy, tuple(kls)
        self._evaluation, self._train = Evaluation(mdps, train, held_out), list(train)
        stack = StackedTasks([mdps[i] for i in train])
        table = np.concatenate(policy.probabilities(train))
        self.exact = policy.gradient(train, stack.split(policy_gradient(stack, table) / len(train)))
        self._visits = visitation(stack, table)
        self._start = self._evaluation.add(policy)
        self._along = self.step(self.exact)

    def step(
        self, gradient: Floats, tasks: Sequence[int] | None = None, visits: Floats | None = None
    ) -> dict[float, int]:
        """Take a step of every KL divergence along a gradient (P,), on these tasks (None: on the training tasks).

        Returns:
            Numbers by KL divergence, for ``gains``.
        """
        tasks, visits = self._train if tasks is None else tasks, self._visits if visits is None else visits
        numbers = {}
        for kl in self.kls:
            moved, _ = matched_step(self.policy, tasks, gradient, visits, kl)
            numbers[kl] = self._evaluation.add(moved)
        return numbers

    def gains(self, numbers: Sequence[int]) -> Floats:
        """float64 (2,): mean gain of exact success on the training tasks and on the held-out tasks (nan if there are none)."""
        start = self._evaluation.means([self._start])
        gains: Floats = (self._evaluation.means(numbers) - start).mean(axis=0)
        return gains

    def relative_gains(self, numbers: Sequence[int], kl: float) -> Floats:
        """float64 (2,): gains of steps along gradients, relative to that of g* on the training tasks at the same KL divergence."""
        relative: Floats = self.gains(numbers) / self.gains([self._along[kl]])[0]
        return relative


class OneStep:
    """The measurements of one method so far.

    Args:
        start: the policy.
    """

    def __init__(self, start: Start) -> None:
        self._start = start
        self._moments, self._steps = GradientMoments(start.exact), list[dict[float, int]]()

    def add(self, batch: Batch, credits_: Sequence[Credit], sampling: Sampling) -> None:
        """Measure one batch with a method's credit."""
        policy, turns = self._start.policy, sampling.loss_turns(batch.groups, credits_)
        gradient = policy.gradient(batch.tasks, batch.split(ascent_weights(turns, batch.policy)))
        self._moments.add(gradient)
        self._steps.append(self._start.step(gradient, batch.tasks, batch.visits))

    def measures(self) -> dict[str, float]:
        """Direction, bias and variance, and gain relative to g* at both of ``KLS``."""
        (small, held_out_small), (large, held_out_large) = (
            self._start.relative_gains([numbers[kl] for numbers in self._steps], kl).tolist() for kl in self._start.kls
        )
        return self._moments.values() | {
            "gain_small": small,
            "gain": large,
            "held_out_gain_small": held_out_small,
            "held_out_gain": held_out_large,
        }


class Measured(NamedTuple):
    """What was measured of all methods at one policy.

    Attributes:
        methods: by method its measures: ``cos_mean``, ``cos_batch``: cos(E g, g*), and the mean over batches of cos(g, g*);
            ``gain_small``, ``gain``: gain at KL .001 and .01, relative to that of g*, and with ``held_out_`` before it on the held-out
            tasks (nan if there are none); ``bias2``, ``variance``: relative to ‖g*‖².
        undefined: the reason by method, if one is missing.
    """

    methods: Mapping[str, dict[str, float]]
    undefined: Mapping[str, str]
