"""Quality of credit in the policy's own parameters: direction, improvement, bias and variance (M1, M2, M3).

g is the gradient of the trainer's loss on one batch of tasks with a method's credit, and g* = ∇J the exact gradient of the
mean success on all training tasks. Gradients are processed one at a time, so that policies may have many parameters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.annotation_sources import HELD_OUT, AnnotationSource, open_annotation_source, reads_earlier
from creditflow.train.bench.critics import StateFeatures
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.exact.metrics import Moments, coverage
from creditflow.train.bench.shared.batch import Batch, Sampling, draw_tasks, sample_batches
from creditflow.train.bench.shared.evaluation import Evaluation
from creditflow.train.bench.shared.loss import ascent_weights
from creditflow.train.bench.shared.policy import SharedPolicy
from creditflow.train.bench.shared.stack import StackedTasks
from creditflow.train.bench.shared.steps import matched_step
from creditflow.wrappers.credit import Credit, CreditError

__all__ = ["KLS", "GradientMoments", "SharedMeasured", "SharedMeasures", "measure_shared"]

Floats = NDArray[np.float64]
KLS: Final = (0.001, 0.01)


@dataclass(frozen=True, slots=True)
class SharedMeasures:
    """Metrics of one method at one policy.

    Attributes:
        cos_mean, cos_batch: M1, cos(E g, g*), and the mean over batches of cos(g, g*).
        gain_small, gain: M2 on the training tasks at KL .001 and .01, relative to the gain of g* at the same KL.
        held_out_gain_small, held_out_gain: the gain on the held-out tasks, relative to the same gains; nan without any.
        bias2, variance: M3, squared bias and variance relative to ‖g*‖².
        coverage: fraction of turns with credit.
        dead_groups: fraction of groups without any credit.
    """

    cos_mean: float
    cos_batch: float
    gain_small: float
    gain: float
    held_out_gain_small: float
    held_out_gain: float
    bias2: float
    variance: float
    coverage: float
    dead_groups: float


class SharedMeasured(NamedTuple):
    """The metrics of all methods at one policy.

    Attributes:
        methods: measures by method.
        undefined: the reason by method, if one is missing.
    """

    methods: Mapping[str, SharedMeasures]
    undefined: Mapping[str, str]


class GradientMoments:
    """Moments of a stream of gradients, and their cosines with the exact gradient.

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
        """``cos_mean``, ``cos_batch``, ``bias2`` and ``variance``, as defined for ``SharedMeasures``."""
        mean = self._sum / self._count
        noise = max(self._squares - self._count * float(mean @ mean), 0.0) / max(self._count - 1, 1)
        moments = Moments.of(mean, noise, self._count, self._exact)
        return {
            "cos_mean": moments.cosine,
            "cos_batch": self._cosines / self._count,
            **moments.bias_variance._asdict(),
        }


def measure_shared(
    policy: SharedPolicy,
    mdps: Sequence[FiniteMDP],
    train: Sequence[int],
    held_out: Sequence[int],
    names: Sequence[str],
    rng: np.random.Generator,
    *,
    sampling: Sampling,
    batches: int,
    features: StateFeatures | None = None,
) -> SharedMeasured:
    """Measure all methods on the same ``batches`` newly sampled batches.

    As in the exact suites, ``X[fitted]``, ``X[linear]`` and ``X[network]`` see ``HELD_OUT`` additional groups of the same task for each measured one.

    Args:
        policy: the policy that is sampled.
        mdps: all tasks.
        train, held_out: indices of the tasks.
        names: names of the methods.
        rng: source of randomness of tasks, rollouts and shuffling.
        sampling: tasks and rollouts of a batch, and the loss.
        batches: number of batches.
        features: what fitted critics see of a state.
    """
    (fitting_rng,) = rng.spawn(1)  # annotations do not change the other random numbers
    gains = _Gains(policy, mdps, train, held_out)
    runs = {name: _Run(gains.exact) for name in names}
    undefined: dict[str, str] = {}
    for number in range(batches):
        tasks = draw_tasks(train, sampling.batch, rng)
        seed = int(rng.integers(2**63))
        (batch,) = sample_batches(mdps, tasks, [policy], sampling, rng, name=f"{number}")
        earlier: list[Batch] = []
        if any(map(reads_earlier, names)):
            label = f"{number}-earlier"
            earlier = sample_batches(
                mdps, tasks, [policy], sampling, fitting_rng, name=label, size=HELD_OUT * sampling.size
            )
        known: dict[str, list[Credit]] = {}  # of this batch
        for name in list(runs):
            source = open_annotation_source(name, mdps[0].horizon, sampling.key, features)
            try:
                runs[name].add(policy, batch, _updated(source, earlier), gains, (name, seed, sampling, known))
            except CreditError as error:
                if "oracle" in name:
                    raise
                undefined[name] = str(error)
                del runs[name]
    return SharedMeasured({name: run.measures(gains) for name, run in runs.items()}, undefined)


def _updated(source: AnnotationSource, earlier: Sequence[Batch]) -> AnnotationSource:
    for batch in earlier:
        for group in batch.groups:
            source.update(group)
    return source


class _Run:
    """The measurements of one method so far."""

    def __init__(self, exact: Floats) -> None:
        self._moments = GradientMoments(exact)
        self._steps: dict[float, list[int]] = {kl: [] for kl in KLS}
        self._covered, self._dead = list[float](), list[bool]()

    def add(
        self,
        policy: SharedPolicy,
        batch: Batch,
        source: AnnotationSource,
        gains: _Gains,
        how: tuple[str, int, Sampling, dict[str, list[Credit]]],
    ) -> None:
        """Measure one batch."""
        name, seed, sampling, known = how
        credits_ = batch.credit(name, source, [seed], sampling, known)
        weights = ascent_weights(batch.turns(credits_, sampling), batch.policy, sampling.loss)
        gradient = policy.gradient(batch.tasks, batch.split(weights))
        self._moments.add(gradient)
        for kl, numbers in self._steps.items():
            numbers.append(gains.add(matched_step(policy, batch.tasks, gradient, batch.visits, kl)[0]))
        self._covered.append(coverage(credits_))
        self._dead += [not given.flat_advantages.any() for given in credits_]

    def measures(self, gains: _Gains) -> SharedMeasures:
        (small, small_other), (large, large_other) = (gains.mean(self._steps[kl], kl) for kl in KLS)
        return SharedMeasures(
            **self._moments.values(),
            gain_small=small,
            gain=large,
            held_out_gain_small=small_other,
            held_out_gain=large_other,
            coverage=float(np.mean(self._covered)),
            dead_groups=float(np.mean(self._dead)),
        )


class _Gains:
    """Gains of exact success, relative to the gain of a step along the exact gradient on the training tasks."""

    def __init__(
        self, policy: SharedPolicy, mdps: Sequence[FiniteMDP], train: Sequence[int], held_out: Sequence[int]
    ) -> None:
        self._evaluation = Evaluation(mdps, train, held_out)
        stack = StackedTasks([mdps[i] for i in train])
        table = np.concatenate(policy.probabilities(train))
        self.exact = policy.gradient(train, stack.split(stack.gradient_weights(table) / len(train)))
        turns = stack.expected_turns(table[None])[0]
        self._start = self.add(policy)
        self._along = {kl: self.add(matched_step(policy, train, self.exact, turns / turns.sum(), kl)[0]) for kl in KLS}

    def add(self, policy: SharedPolicy) -> int:
        """Queue a policy for evaluation; returns its number."""
        return self._evaluation.add(policy)

    def mean(self, numbers: Sequence[int], kl: float) -> tuple[float, float]:
        """Mean gain of these policies on the training tasks and on the held-out tasks."""
        start, along = self._evaluation.means([self._start, self._along[kl]])
        own, other = ((self._evaluation.means(numbers) - start).mean(axis=0) / (along - start)[0]).tolist()
        return own, other
