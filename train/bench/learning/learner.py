"""Learning: policies of all methods from the same start, updated on the same tasks with common random numbers.

There are two kinds of update. ``KLUpdate``: one step down the gradient of the loss with a given KL divergence from the old
policy, so that schemes are compared by direction and not by the scale of their credit. ``AdamUpdate``: Adam with PPO's
epochs and minibatches, as in the trainer's recipes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.annotation_sources import AnnotationSource, StateFeatures, open_annotation_source
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.learning.batch import Batch, Draw, LossTurns, Sampling, ascent_weights
from creditflow.train.bench.learning.policy import DEFAULT_SEARCH, Policy, Search, matched_step
from creditflow.wrappers.credit import CreditError

__all__ = ["AdamUpdate", "KLUpdate", "Learner", "Learning"]

Floats = NDArray[np.float64]
PolicyT = TypeVar("PolicyT", bound=Policy)


@dataclass(frozen=True, slots=True)
class KLUpdate:
    """One step of a given KL divergence per update.

    Attributes:
        kl: KL divergence in nats per turn on the update's tasks.
        visits: how often a state is visited, by which it is weighted: as "expected" of the old policy, or as "sampled".
        search: how the size of the step is searched for.
    """

    kl: float = 0.003
    visits: Literal["expected", "sampled"] = "expected"
    search: Search = DEFAULT_SEARCH


@dataclass(frozen=True, slots=True)
class AdamUpdate:
    """Adam with PPO's minibatches. A batch without credit makes no step.

    Attributes:
        lr: learning rate; or a sequence, that of each update.
        epochs: passes over the update's trajectories.
        minibatches: optimiser steps per epoch; trajectories are shuffled and split.
        betas, eps: parameters of Adam.
        unit: whether credit is divided by its root mean square over the update's turns, so that schemes differ in direction and
            in the balance between turns but not in scale.
    """

    lr: float | Sequence[float] = 0.03
    epochs: int = 1
    minibatches: int = 1
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    unit: bool = False


class Moments(NamedTuple):
    """The state of Adam: decayed means of gradients and of their squares, float64 (P,), and the number of steps."""

    first: Any
    second: Any
    steps: int


class Learner(Generic[PolicyT]):
    """One method's policy while it learns.

    Args:
        name: name of the method.
        policy: the initial policy.
        update: the kind of step.
        source: annotation source of the method.

    Attributes:
        policy: the policy now.
        turns: number of turns sampled so far.
        updates: number of updates so far.
    """

    def __init__(self, name: str, policy: PolicyT, update: KLUpdate | AdamUpdate, source: AnnotationSource) -> None:
        self.name, self.policy, self.turns, self.updates = name, policy, 0, 0
        self._update, self._source = update, source
        self._moments: Moments | None = None

    def learn(self, batch: Batch, draw: Draw, sampling: Sampling) -> None:
        """Update the policy on one batch.

        Raises:
            CreditError: the scheme cannot score one of the groups.
        """
        self.turns += batch.turns
        credits_ = batch.credit(self.name, self._source, draw.corruption, sampling.key)
        for group in batch.groups:
            self._source.update(group)
        turns = batch.turns_in_loss(credits_, sampling)
        if isinstance(self._update, KLUpdate):
            weights = self._weights(batch, turns, sampling, batch.policy)
            direction = self.policy.gradient(batch.tasks, weights)
            visits = batch.visits if self._update.visits == "expected" else batch.sampled_visits
            self.policy, _ = matched_step(
                self.policy, batch.tasks, direction, visits, self._update.kl, self._update.search
            )
        elif turns.advantage.any():
            self._adam_steps(batch, turns, draw, sampling, self._update)
        self.updates += 1

    def _adam_steps(self, batch: Batch, turns: LossTurns, draw: Draw, sampling: Sampling, update: AdamUpdate) -> None:
        if update.unit:
            turns = turns.scaled()
        rate = update.lr if isinstance(update.lr, float) else update.lr[self.updates]
        trajectories, rng = np.unique(turns.trajectory), np.random.default_rng(draw.seed)
        now: Floats | None = batch.policy
        for _ in range(update.epochs):
            order = rng.permutation(trajectories) if update.minibatches > 1 else trajectories
            for number in range(update.minibatches):
                minibatch = order[number :: update.minibatches]
                if not len(minibatch):
                    continue
                if now is None:
                    now = np.concatenate(self.policy.probabilities(batch.tasks))
                chosen = turns.of(minibatch) if update.minibatches > 1 else turns
                weights = self._weights(batch, chosen, sampling, now)
                self._adam(self.policy.ascent(batch.tasks, weights), update, rate)
                now = None

    def _weights(self, batch: Batch, turns: LossTurns, sampling: Sampling, now: Floats) -> list[Floats]:
        """Weights of ∇ log π in the negative gradient of the loss, by task; ``now`` is the policy on the batch's states."""
        old = None if now is batch.policy else batch.policy
        return batch.split(ascent_weights(turns, now, sampling.loss, old=old))

    def _adam(self, ascent: Any, update: AdamUpdate, rate: float) -> None:
        """One step of Adam up ``ascent`` (P,), in arrays or tensors alike."""
        first, second, steps = self._moments or Moments(0.0 * ascent, 0.0 * ascent, 0)
        (b1, b2), steps = update.betas, steps + 1
        self._moments = Moments(b1 * first + (1 - b1) * ascent, b2 * second + (1 - b2) * ascent**2, steps)
        unbiased = self._moments.first / (1 - b1**steps), self._moments.second / (1 - b2**steps)
        self.policy = self.policy.moved(unbiased[0] / (unbiased[1] ** 0.5 + update.eps), rate)


class Learning(Generic[PolicyT]):
    """All methods from one start; a scheme that cannot score one of its updates is left out.

    Args:
        policy: the initial policy of all methods.
        mdps: all tasks.
        names: names of the methods.
        sampling: tasks and rollouts of an update, and the loss.
        update: the kind of step.
        features: what fitted critics see of a state.

    Attributes:
        learners: learner by method; a caller may delete one that needs no further update.
        undefined: the reason by method, if one is missing.
    """

    def __init__(
        self,
        policy: PolicyT,
        mdps: Sequence[FiniteMDP],
        names: Sequence[str],
        sampling: Sampling,
        update: KLUpdate | AdamUpdate,
        features: StateFeatures | None = None,
    ) -> None:
        self._mdps, self._sampling = mdps, sampling
        self.learners = {
            name: Learner(name, policy, update, open_annotation_source(name, mdps[0].horizon, sampling.key, features))
            for name in names
        }
        self.undefined = dict[str, str]()

    def over(self, draws: Iterable[Draw]) -> Iterator[Mapping[str, Learner[PolicyT]]]:
        """Make one update of every learner for each draw; yields the learners after it, and ends when there are none."""
        for draw in draws:
            learners = dict(self.learners)
            if not learners:
                return
            policies = [learner.policy for learner in learners.values()]
            batches = self._sampling.batches(self._mdps, draw, policies)
            for learner, batch in zip(learners.values(), batches, strict=True):
                try:
                    learner.learn(batch, draw, self._sampling)
                except CreditError as error:
                    if "oracle" in learner.name:  # an oracle without credit is a defect
                        raise
                    self.undefined[learner.name] = str(error)
                    del self.learners[learner.name]
            yield dict(self.learners)
