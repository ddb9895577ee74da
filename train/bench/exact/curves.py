"""Exact learning curves of all methods on one task: same start, random numbers and KL divergence per update.

The result is the area under exact J against *environment turns*: a group without learning signal still uses up its
turns, and a policy that needs fewer turns per episode gets more updates from the same budget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.annotation_sources import AnnotationSource, open_annotation_source
from creditflow.train.bench.controls import CreditFunction, ExactEvaluator, IndexedTurns
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.exact.metrics import sampled_gradient
from creditflow.train.bench.exact.policies import softmax
from creditflow.train.bench.exact.simulate import ArrayGroup, simulate
from creditflow.train.bench.exact.steps import step_sizes
from creditflow.train.bench.exact.values import state_occupancy, success
from creditflow.train.bench.methods import make_methods
from creditflow.wrappers.credit import CreditError

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
    budget = updates * size * float(state_occupancy(mdp, softmax(logits)).sum())
    tables = np.repeat(logits[None], len(names), axis=0)
    rate = np.full(len(names), float(success(mdp, softmax(logits))))
    used_turns = np.zeros(len(names))
    history: list[list[tuple[float, float]]] = [[(0.0, rate[0])] for _ in names]
    undefined: dict[str, str] = {}
    sources = [open_annotation_source(name, mdp.horizon, key) for name in names]  # each fitted on its own rollouts only
    for _ in range(MAX_UPDATE_FACTOR * updates):
        active = np.flatnonzero(used_turns < budget)
        if not len(active):
            break
        policies = softmax(tables[active])
        shuffle_seed = int(rng.integers(2**63))
        groups = simulate(mdp, policies, size, rng)
        directions = np.empty_like(policies)
        weights = np.empty(policies.shape[:2])
        for i, (m, group) in enumerate(zip(active.tolist(), groups, strict=True)):
            evaluator = ExactEvaluator(mdp, policies[i])
            turns = evaluator.index_turns(group)
            (method,) = make_methods([names[m]], evaluator, [shuffle_seed], key=key).values()
            weights[i] = np.bincount(turns.state, minlength=mdp.size) / len(turns.state)
            used_turns[m] += len(turns.state)
            try:
                directions[i] = _direction(evaluator, group, method, sources[m], turns)
            except CreditError as error:
                if "oracle" in names[m]:
                    raise
                undefined[names[m]] = str(error)
                directions[i], used_turns[m] = 0.0, np.inf
        visited = np.flatnonzero(weights.any(axis=0))  # elsewhere directions are 0
        sizes = step_sizes(policies[:, visited], directions[:, visited], weights[:, visited], kl)
        tables[active] += sizes[:, None, None] * directions
        tables[active] -= tables[active].max(axis=2, keepdims=True)
        rate[active] = success(mdp, softmax(tables[active]))
        for m in active.tolist():
            history[m].append((used_turns[m], rate[m]))
    return ExactCurves({n: _curve(history[m], budget) for m, n in enumerate(names) if n not in undefined}, undefined)


def _direction(
    evaluator: ExactEvaluator, group: ArrayGroup, method: CreditFunction, source: AnnotationSource, turns: IndexedTurns
) -> NDArray[np.float64]:
    """The gradient sampled with a method's credit; afterwards its annotation source is updated."""
    gradient = sampled_gradient(evaluator, group, method(source.annotate(group, evaluator)), turns)
    source.update(group)
    return gradient


def _curve(history: list[tuple[float, float]], budget: float) -> ExactCurve:
    turns, rates = np.array(history).T
    # J holds from the update until the next one; the last value holds until the end of the budget
    until = np.minimum(np.append(turns[1:], np.inf), budget)
    area = float(((until - np.minimum(turns, budget)) * rates).sum() / budget)
    fractions = np.linspace(0.0, budget, POINTS)
    points = rates[np.searchsorted(turns, fractions, side="right") - 1]
    return ExactCurve(area, float(points[-1]), tuple(round(float(x), 4) for x in points), len(history) - 1)
