"""Learning: policies of all methods from the same start, updated on the same tasks with common random numbers.

``KLUpdate`` is one step down the gradient of the loss with a given KL divergence from the old policy, so that schemes are compared by
direction and not by the scale of their credit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.annotation_sources import AnnotationSource, StateFeatures, open_annotation_source
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.learning.batch import Batch, Draw, LossTurns, Sampling, ascent_weights
from creditflow.train.bench.learning.policy import Policy, matched_step
from creditflow.train.settings.update import LossConfig
from creditflow.wrappers.credit import CreditError

__all__ = ["KLUpdate", "Learner", "Learning", "Steps", "Update"]

Floats = NDArray[np.float64]
PolicyT = TypeVar("PolicyT", bound=Policy)


class Steps(Protocol):
    """What updates the policy of one learner."""

    def step(self, policy: Any, batch: Batch, turns: LossTurns, draw: Draw, loss: LossConfig) -> Any:
        """The policy after one update on the turns of a batch that are in the loss."""
        ...


class Update(Protocol):
    """A kind of update."""

    def begin(self) -> Steps:
        """The steps of one learner."""
        ...


@dataclass(frozen=True, slots=True)
class KLUpdate:
    """One step of a given KL divergence per update.

    Attributes:
        kl: KL divergence in nats per turn on the update's tasks.
    """

    kl: float = 0.003

    def begin(self) -> KLUpdate:
        """The steps of one learner: they have no state."""
        return self

    def step(self, policy: Any, batch: Batch, turns: LossTurns, draw: Draw, loss: LossConfig) -> Any:  # noqa: ARG002 - the protocol's signature
        """The policy after one update on a batch."""
        direction = policy.gradient(batch.tasks, batch.split(ascent_weights(turns, batch.policy)))
        return matched_step(policy, batch.tasks, direction, batch.visits, self.kl)[0]


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
    """

    def __init__(self, name: str, policy: PolicyT, update: Update, source: AnnotationSource) -> None:
        self.name, self.policy, self.turns = name, policy, 0
        self._steps, self._source = update.begin(), source

    def learn(self, batch: Batch, draw: Draw, sampling: Sampling) -> None:
        """Update the policy on one batch.

        Raises:
            CreditError: the scheme cannot score one of the groups.
        """
        self.turns += batch.turns
        credits_ = batch.credit(self.name, self._source, draw.corruption, sampling.key)
        for group in batch.groups:
            self._source.update(group)
        turns = sampling.loss_turns(batch.groups, credits_)
        self.policy = self._steps.step(self.policy, batch, turns, draw, sampling.loss)


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
        learners: learner by method.
        undefined: the reason by method, if one is missing.
    """

    def __init__(
        self,
        policy: PolicyT,
        mdps: Sequence[FiniteMDP],
        names: Sequence[str],
        sampling: Sampling,
        update: Update,
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
