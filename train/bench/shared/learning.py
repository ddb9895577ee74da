"""Learning curves of all methods with a shared policy: same start, same tasks, common random numbers, exact success."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.critics import StateFeatures
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.learning.batch import Sampling, draws
from creditflow.train.bench.learning.evaluation import Evaluation
from creditflow.train.bench.learning.learner import AdamUpdate, KLUpdate, Learning
from creditflow.train.bench.learning.policy import Policy

__all__ = ["SharedCurve", "SharedCurves", "learn_shared"]

Floats = NDArray[np.float64]


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
        """Mean success on held-out tasks over all measured points after the start; nan if there are none."""
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
    policy: Policy,
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
    learning = Learning(policy, mdps, names, sampling, update, features)
    evaluation = Evaluation(mdps, train, held_out)
    points = {name: [evaluation.add(policy)] for name in names}
    for number, learners in enumerate(learning.over(islice(draws(train, sampling.batch, rng), updates)), 1):
        if number % every == 0 or number == updates:
            for name, learner in learners.items():
                points[name].append(evaluation.add(learner.policy))
    curves = {name: SharedCurve(*evaluation.means(points[name]).T) for name in learning.learners}
    return SharedCurves(curves, learning.undefined)
