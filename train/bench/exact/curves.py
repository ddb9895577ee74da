"""Exact learning curves of all methods on one task: same start, random numbers and KL divergence per update.

The result is the area under exact J against *environment turns*: a group without learning signal still uses up its
turns, and a policy that needs fewer turns per episode gets more updates from the same budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.exact.offline import SEARCH, SUM_OVER_TURNS
from creditflow.train.bench.exact.policies import softmax
from creditflow.train.bench.exact.values import state_occupancy
from creditflow.train.bench.learning.batch import Draw, Sampling
from creditflow.train.bench.learning.evaluation import Evaluation
from creditflow.train.bench.learning.learner import KLUpdate, Learning
from creditflow.train.bench.learning.policy import table_policy

__all__ = ["ExactCurve", "ExactCurves", "learn_exactly"]

MAX_UPDATE_FACTOR = 6  # policies with short episodes get more updates than planned, up to this multiple
POINTS = 12  # of the stored curve


@dataclass(frozen=True, slots=True)
class ExactCurve:
    """Learning curve of one method.

    Attributes:
        area: mean of exact J over the turn budget.
        final: exact J at the end of the budget.
        points: exact J at equally spaced fractions of the budget, from 0 to 1.
        updates: number of sampled groups.
    """

    area: float
    final: float
    points: tuple[float, ...]
    updates: int


class ExactCurves(NamedTuple):
    """The learning curves of all methods on one task.

    Attributes:
        curves: curve by method.
        undefined: the reason by method, if one is missing.
    """

    curves: Mapping[str, ExactCurve]
    undefined: Mapping[str, str]


def learn_exactly(
    mdp: FiniteMDP,
    logits: NDArray[np.float64],
    names: Sequence[str],
    rng: np.random.Generator,
    *,
    size: int,
    updates: int,
    kl: float,
    key: Literal["state", "text"] = "state",
) -> ExactCurves:
    """Train a tabular policy with every method; a scheme that cannot score one of its groups is left out.

    Args:
        mdp: task as tables.
        logits: float64 (S, A), of the initial policy.
        names: names of the methods.
        rng: source of randomness; all methods use the same random numbers for their n-th group.
        size: G.
        updates: budget, in groups of the initial policy's expected length.
        kl: KL divergence of each update, in nats per turn of the group.
        key: the key by which schemes compare states.
    """
    policy, mdps = table_policy(logits), [mdp]
    budget = updates * size * float(state_occupancy(mdp, softmax(logits)).sum())
    sampling = Sampling(1, size, SUM_OVER_TURNS, key)
    learning = Learning(policy, mdps, names, sampling, KLUpdate(kl, "sampled", SEARCH))
    evaluation = Evaluation(mdps, [0], [])
    points = {name: [(0, evaluation.add(policy))] for name in names}
    for learners in learning.over(islice(_draws(rng), MAX_UPDATE_FACTOR * updates)):
        for name, learner in learners.items():
            points[name].append((learner.turns, evaluation.add(learner.policy)))
            if learner.turns >= budget:
                del learning.learners[name]
    curves = {}
    for name in names:
        if name not in learning.undefined:
            turns, numbers = zip(*points[name], strict=True)
            curves[name] = _curve(np.array(turns, np.float64), evaluation.means(numbers)[:, 0], budget)
    return ExactCurves(curves, learning.undefined)


def _draws(rng: np.random.Generator) -> Iterator[Draw]:
    while True:
        seed = (int(rng.integers(2**63)),)
        yield Draw([0], rng, seed, [seed], "g")


def _curve(turns: NDArray[np.float64], rates: NDArray[np.float64], budget: float) -> ExactCurve:
    # J holds from the update until the next one; the last value holds until the end of the budget
    until = np.minimum(np.append(turns[1:], np.inf), budget)
    area = float(((until - np.minimum(turns, budget)) * rates).sum() / budget)
    fractions = np.linspace(0.0, budget, POINTS)
    points = rates[np.searchsorted(turns, fractions, side="right") - 1]
    return ExactCurve(area, float(points[-1]), tuple(round(float(x), 4) for x in points), len(turns) - 1)
