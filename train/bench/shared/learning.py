"""Learning curves of all methods with a shared policy: same start, same tasks, common random numbers, exact success.

There are two kinds of update. ``KLUpdate``: one step down the gradient of the loss with a given KL divergence from the old
policy, so that schemes are compared by direction and not by the scale of their credit. ``AdamUpdate``: Adam at a fixed
learning rate with PPO's epochs and minibatches, as in the trainer's recipes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.annotation_sources import AnnotationSource, open_annotation_source
from creditflow.train.bench.critics import StateFeatures
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.shared.batch import Batch, Sampling, draw_tasks, sample_batches
from creditflow.train.bench.shared.evaluation import Evaluation
from creditflow.train.bench.shared.loss import LossTurns, ascent_weights
from creditflow.train.bench.shared.policy import SharedPolicy
from creditflow.train.bench.shared.steps import matched_step
from creditflow.wrappers.credit import CreditError

__all__ = ["AdamUpdate", "KLUpdate", "SharedCurve", "SharedCurves", "learn_shared"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class KLUpdate:
    """One step of a given KL divergence per update.

    Attributes:
        kl: KL divergence in nats per turn on the update's tasks; states are weighted by the old policy's expected visits.
    """

    kl: float = 0.003


@dataclass(frozen=True, slots=True)
class AdamUpdate:
    """Adam with PPO's minibatches.

    Attributes:
        lr: learning rate.
        epochs: passes over the update's trajectories.
        minibatches: optimiser steps per epoch; trajectories are shuffled and split.
        betas, eps: parameters of Adam.
        unit: whether credit is divided by its root mean square over the update's turns, so that schemes differ in direction and
            in the balance between turns but not in scale.
    """

    lr: float = 0.03
    epochs: int = 1
    minibatches: int = 1
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    unit: bool = False


class SharedCurve(NamedTuple):
    """Learning curve of one method: exact success at every measured point, of which the first is the start.

    Attributes:
        train: float64 (points,), mean over the training tasks.
        held_out: float64 (points,), mean over the held-out tasks; nan without any.
    """

    train: Floats
    held_out: Floats

    @property
    def area(self) -> float:
        """Mean over the measured points after the start, training tasks."""
        return float(self.train[1:].mean())

    @property
    def held_out_area(self) -> float:
        """Mean over the measured points after the start, held-out tasks; nan without any."""
        return float(self.held_out[1:].mean())


class SharedCurves(NamedTuple):
    """The learning curves of all methods from one start.

    Attributes:
        curves: curve by method.
        undefined: the reason by method, if one is missing.
    """

    curves: Mapping[str, SharedCurve]
    undefined: Mapping[str, str]


def learn_shared(
    policy: SharedPolicy,
    mdps: Sequence[FiniteMDP],
    train: Sequence[int],
    held_out: Sequence[int],
    names: Sequence[str],
    rng: np.random.Generator,
    *,
    sampling: Sampling,
    update: KLUpdate | AdamUpdate,
    updates: int,
    every: int = 10,
    features: StateFeatures | None = None,
) -> SharedCurves:
    """Train a shared policy with every method; a scheme that cannot score one of its updates is left out.

    Args:
        policy: the initial policy, also the reference of a KL term.
        mdps: all tasks.
        train, held_out: indices of the tasks that are trained on and of those that are only evaluated.
        names: names of the methods.
        rng: source of randomness; all methods get the same random numbers in their n-th update.
        sampling: tasks and rollouts of an update, and the loss.
        update: the kind of step.
        updates: number of updates.
        every: updates between two measured points.
        features: what fitted critics see of a state.
    """
    learners = {
        name: _Learner(name, policy, update, open_annotation_source(name, mdps[0].horizon, sampling.key, features))
        for name in names
    }
    evaluation = Evaluation(mdps, train, held_out)
    points = {name: [evaluation.add(policy)] for name in names}
    undefined: dict[str, str] = {}
    for number in range(1, updates + 1):
        if not learners:
            break
        tasks = draw_tasks(train, sampling.batch, rng)
        seed = int(rng.integers(2**63))
        policies = [learner.policy for learner in learners.values()]
        batches = sample_batches(mdps, tasks, policies, sampling, rng, name=f"{number}")
        for (name, learner), batch in zip(list(learners.items()), batches, strict=True):
            try:
                learner.learn(batch, sampling, seed)
            except CreditError as error:
                if "oracle" in name:
                    raise
                undefined[name] = str(error)
                del learners[name]
        if number % every == 0 or number == updates:
            for name, learner in learners.items():
                points[name].append(evaluation.add(learner.policy))
    curves = {name: evaluation.means(points[name]).T for name in learners}
    return SharedCurves({name: SharedCurve(own, other) for name, (own, other) in curves.items()}, undefined)


class _Learner:
    """One method's policy while it learns."""

    def __init__(
        self, name: str, policy: SharedPolicy, update: KLUpdate | AdamUpdate, source: AnnotationSource
    ) -> None:
        self.name, self.policy, self._reference, self._update, self._source = name, policy, policy, update, source
        self._moments: tuple[Floats, Floats] | None = None
        self._steps = 0

    def learn(self, batch: Batch, sampling: Sampling, seed: int) -> None:
        """Update the policy on one batch.

        Raises:
            CreditError: the scheme cannot score one of the groups.
        """
        turns = batch.turns(batch.credit(self.name, self._source, [seed], sampling), sampling)
        for group in batch.groups:
            self._source.update(group)
        if isinstance(self._update, KLUpdate):
            direction = self._ascent(batch, turns, sampling, batch.policy)
            self.policy, _ = matched_step(self.policy, batch.tasks, direction, batch.visits, self._update.kl)
            return
        if self._update.unit:
            turns = turns.scaled()
        trajectories, rng = np.unique(turns.trajectory), np.random.default_rng([seed])
        for _ in range(self._update.epochs):
            count = self._update.minibatches
            order = rng.permutation(trajectories) if count > 1 else trajectories
            for minibatch in filter(len, (order[i::count] for i in range(count))):
                chosen = turns.of(minibatch) if count > 1 else turns
                now = np.concatenate(self.policy.probabilities(batch.tasks))
                self._adam(self._ascent(batch, chosen, sampling, now), self._update)

    def _ascent(self, batch: Batch, turns: LossTurns, sampling: Sampling, now: Floats) -> Floats:
        """The negative gradient of the loss (P,)."""
        reference = np.concatenate(self._reference.probabilities(batch.tasks)) if sampling.loss.kl_weight else None
        old = None if now is batch.policy else batch.policy
        weights = ascent_weights(turns, now, sampling.loss, old=old, reference=reference)
        return self.policy.gradient(batch.tasks, batch.split(weights))

    def _adam(self, ascent: Floats, update: AdamUpdate) -> None:
        first, second = self._moments or (np.zeros_like(ascent), np.zeros_like(ascent))
        (b1, b2), self._steps = update.betas, self._steps + 1
        self._moments = first, second = b1 * first + (1 - b1) * ascent, b2 * second + (1 - b2) * ascent**2
        unbiased = first / (1 - b1**self._steps), second / (1 - b2**self._steps)
        self.policy = self.policy.moved(unbiased[0] / (np.sqrt(unbiased[1]) + update.eps), update.lr)
