"""Learning curves of all columns in lockstep on one task: same start, same random numbers, same KL per update.

What counts is the area under exact J against *environment turns*: a group that taught nothing has cost its turns, and a
policy that became quick gets more updates out of the same turns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.columns import make_columns
from creditflow.train.bench.controls import Judge
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.exact.metrics import sampled_gradient
from creditflow.train.bench.exact.policies import softmax
from creditflow.train.bench.exact.simulate import simulate
from creditflow.train.bench.exact.steps import step_sizes
from creditflow.train.bench.exact.values import success, visits
from creditflow.train.bench.feeds import open_feed
from creditflow.wrappers.credit import CreditError

__all__ = ["ExactCurve", "Learned", "learn_exactly"]

MOST_UPDATES = 6  # times the planned number: quick policies update more often, up to here
POINTS = 12  # of the curve that is kept


@dataclass(frozen=True, slots=True)
class ExactCurve:
    """One column's curve.

    Attributes:
        area: mean of exact J over the turn budget.
        final: exact J when the budget was spent.
        points: exact J at equal fractions of the budget, the start first.
        updates: how many groups were played.
    """

    area: float
    final: float
    points: tuple[float, ...]
    updates: int


class Learned(NamedTuple):
    """All columns on one task.

    Attributes:
        curves: by column.
        undefined: why a column is missing, by name.
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
) -> Learned:
    """Learn under every column; a scheme that meets a group it cannot score is left out.

    Args:
        mdp, logits: the task and the first policy.
        names: of columns.
        rng: all columns see the same draws in their n-th group.
        size: G.
        updates: the budget, in groups as long as the first policy's.
        kl: of each update, in nats per turn of the group.
        key: what schemes take for equal states.
    """
    budget = updates * size * float(visits(mdp, softmax(logits)).sum())
    tables = np.repeat(logits[None], len(names), axis=0)
    rate = np.full(len(names), float(success(mdp, softmax(logits))))
    spent = np.zeros(len(names))
    history: list[list[tuple[float, float]]] = [[(0.0, rate[0])] for _ in names]
    undefined: dict[str, str] = {}
    feeds = [open_feed(name, mdp.horizon, key) for name in names]  # each learns from its own column's rollouts alone
    for _ in range(MOST_UPDATES * updates):
        active = np.flatnonzero(spent < budget)
        if not len(active):
            break
        policies = softmax(tables[active])
        mixing = np.random.default_rng(int(rng.integers(2**63)))
        played = simulate(mdp, policies, size, rng)
        directions = np.empty_like(policies)
        weights = np.empty(policies.shape[:2])
        for i, (p, group) in enumerate(zip(active.tolist(), played, strict=True)):
            judge = Judge(mdp, policies[i])
            at = judge.locate(group)
            (column,) = make_columns([names[p]], judge, mixing, key=key).values()
            spent[p] += len(at.state)
            try:
                directions[i] = sampled_gradient(judge, group, column(feeds[p].fed(group, judge)), at)
                feeds[p].learn(group)
            except CreditError as error:
                if "oracle" in names[p]:
                    raise
                undefined[names[p]] = str(error)
                directions[i], spent[p] = 0.0, np.inf
            weights[i] = np.bincount(at.state, minlength=mdp.size) / len(at.state)
        met = np.flatnonzero(weights.any(axis=0))  # elsewhere directions vanish
        sizes = step_sizes(policies[:, met], directions[:, met], weights[:, met], kl)
        tables[active] += sizes[:, None, None] * directions
        tables[active] -= tables[active].max(axis=2, keepdims=True)
        rate[active] = success(mdp, softmax(tables[active]))
        for p in active.tolist():
            history[p].append((spent[p], rate[p]))
    found = {name: _summary(history[p], budget) for p, name in enumerate(names) if name not in undefined}
    return Learned(found, undefined)


def _summary(history: list[tuple[float, float]], budget: float) -> ExactCurve:
    turns, rates = np.array(history).T
    # J holds from the update until the next one; the last value holds to the end of the budget
    until = np.minimum(np.append(turns[1:], np.inf), budget)
    area = float(((until - np.minimum(turns, budget)) * rates).sum() / budget)
    marks = np.linspace(0.0, budget, POINTS)
    points = rates[np.searchsorted(turns, marks, side="right") - 1]
    return ExactCurve(area, float(points[-1]), tuple(round(float(x), 4) for x in points), len(history) - 1)
