"""Metrics M1 to M5 of all methods on the same simulated groups of one task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.annotation_sources import HELD_OUT, open_annotation_source
from creditflow.train.bench.controls import ExactEvaluator, IndexedTurns
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.exact.metrics import (
    Concordance,
    HiddenValue,
    centered_within_states,
    hidden_value,
    pairwise_concordance,
)
from creditflow.train.bench.exact.policies import softmax
from creditflow.train.bench.exact.simulate import ArrayGroup, simulate
from creditflow.train.bench.exact.values import optimal_action_values
from creditflow.train.bench.learning.batch import Batch, Sampling
from creditflow.train.bench.learning.one_step import KLS, OneStep, Start, coverage
from creditflow.train.bench.learning.policy import LinearPolicy, table_policy
from creditflow.train.bench.learning.stack import StackedTasks
from creditflow.train.bench.learning.steps import Search
from creditflow.train.bench.methods import base_method, make_methods
from creditflow.train.settings.update import LossConfig
from creditflow.wrappers.credit import Credit, CreditError
from creditflow.wrappers.records.group import Group

__all__ = ["SEARCH", "SUM_OVER_TURNS", "Measured", "Measures", "measure"]

SEARCH: Final = Search(tolerance=1e-9)
# g = (1/G) Σ_i Σ_t m_it c_it ∇ log π(a_it | s_it), whatever the scheme's own average is
SUM_OVER_TURNS: Final = LossConfig(aggregation="constant", normaliser=1)
EFFICIENCY_DISCOUNT = 0.95  # γ of Q*_γ
CONCORDANCE_GROUPS = 12  # the number of pairs grows with the square of the group


@dataclass(frozen=True, slots=True)
class Measures:
    """Metrics of one method on one task.

    Attributes:
        cos_mean, cos_batch: M1, cos(E g, g*), and the mean over groups of cos(g, g*).
        gain_small, gain: M2, gain of J relative to that of ∇J at the same KL, .001 and .01.
        bias2, variance: M3, squared bias and variance relative to ‖∇J‖².
        concordance, concordance_optimal: M4, against Q^π and against Q*_γ.
        auroc_failed, auroc_succeeded: M5, AUROC of credit centered within states.
        auroc_failed_raw, auroc_succeeded_raw: the same of the credit itself.
        coverage: fraction of turns with credit.
        dead_groups: fraction of groups without any credit.
    """

    cos_mean: float
    cos_batch: float
    gain_small: float
    gain: float
    bias2: float
    variance: float
    concordance: float
    concordance_optimal: float
    auroc_failed: float
    auroc_succeeded: float
    auroc_failed_raw: float
    auroc_succeeded_raw: float
    coverage: float
    dead_groups: float


class Measured(NamedTuple):
    """The metrics of all methods on one task.

    Attributes:
        methods: measures by method.
        natural: gain of the natural gradient relative to that of ∇J at each of ``KLS`` (the upper limit of M2).
        base: fraction of good turns among good and bad ones, in failed and in successful rollouts (base rates of M5).
        undefined: the reason by method, if one is missing.
    """

    methods: Mapping[str, Measures]
    natural: tuple[float, float]
    base: tuple[float, float]
    undefined: Mapping[str, str]


class _Sampled(NamedTuple):
    """The groups on which all methods are measured.

    Attributes:
        groups: sampled groups.
        turns: their turns as indices.
        advantage: float64 (N,), A^π of every turn of all groups.
        success: bool (N,), whether the turn's rollout succeeded.
    """

    groups: Sequence[ArrayGroup]
    turns: Sequence[IndexedTurns]
    advantage: NDArray[np.float64]
    success: NDArray[np.bool_]


def measure(
    mdp: FiniteMDP,
    logits: NDArray[np.float64],
    names: Sequence[str],
    rng: np.random.Generator,
    *,
    size: int,
    groups: int,
    key: Literal["state", "text"] = "state",
) -> Measured:
    """Measure methods on ``groups`` newly sampled groups of ``size`` rollouts, each a batch of its own.

    For each of these groups ``HELD_OUT`` more are sampled, on which ``X[fitted]`` fits its annotations, so that the
    estimation error of the annotations is part of the variance.

    Args:
        mdp: task as tables.
        logits: float64 (S, A), of the policy that is sampled.
        names: names of the methods.
        rng: source of randomness of rollouts and shuffling.
        size: G.
        groups: number of groups.
        key: the key by which schemes compare states.
    """
    policy = softmax(logits)
    evaluator = ExactEvaluator(mdp, policy)
    (held_out_rng,) = rng.spawn(1)  # held-out groups do not change the other random numbers
    sampled = _sample(evaluator, rng, size, groups)
    held_out = [
        simulate(mdp, policy[None], HELD_OUT * size, held_out_rng)[0]
        for _ in sampled.groups
        if any("[fitted]" in name for name in names)
    ]

    @cache
    def annotated(name: str) -> list[Group]:
        result = list[Group]()
        for number, group in enumerate(sampled.groups):
            source = open_annotation_source(name, mdp.horizon, key)
            if held_out:
                source.update(held_out[number])
            result.append(source.annotate(group, evaluator))
        return result

    methods = make_methods(names, evaluator, [int(rng.integers(2**63))], key=key)
    assigned, undefined = _assign(methods, lambda name: annotated(base_method(name)))
    return _measured(evaluator, table_policy(logits), sampled, assigned, undefined)


def _sample(evaluator: ExactEvaluator, rng: np.random.Generator, size: int, count: int) -> _Sampled:
    groups = [simulate(evaluator.mdp, evaluator.policy[None], size, rng, name=f"g{i}")[0] for i in range(count)]
    turns = [evaluator.index_turns(group) for group in groups]
    return _Sampled(
        groups,
        turns,
        np.concatenate([evaluator.advantage[at.left, at.state, at.action] for at in turns]),
        np.concatenate([group.arrays.success[group.arrays.trajectory] for group in groups]),
    )


def _assign(
    methods: Mapping[str, Callable[[Group], Credit]], annotated: Callable[[str], Sequence[Group]]
) -> tuple[dict[str, list[Credit]], dict[str, str]]:
    """Credit of every method, and the reasons why schemes have none; an oracle without credit is a defect and raises."""
    assigned, undefined = dict[str, list[Credit]](), dict[str, str]()
    for name, method in methods.items():
        try:
            assigned[name] = [method(group) for group in annotated(name)]
        except CreditError as error:
            if "oracle" in name:
                raise
            undefined[name] = str(error)
    return assigned, undefined


def _measured(
    evaluator: ExactEvaluator,
    policy: LinearPolicy,
    sampled: _Sampled,
    assigned: Mapping[str, Sequence[Credit]],
    undefined: Mapping[str, str],
) -> Measured:
    """The metrics of all assigned credit."""
    mdp = evaluator.mdp
    sampling = Sampling(1, len(sampled.groups[0]), SUM_OVER_TURNS)
    start, stack = Start(policy, [mdp], [0], [], search=SEARCH), StackedTasks([mdp])
    batches = [Batch([0], stack, evaluator.policy, [group]) for group in sampled.groups]
    on_policy = _concordances(assigned, sampled.turns, evaluator.exact.action_value)
    optimal = _concordances(assigned, sampled.turns, optimal_action_values(mdp, EFFICIENCY_DISCOUNT))
    methods = {}
    base = (float("nan"), float("nan"))
    for name, of_method in assigned.items():
        one_step = OneStep(start)
        for batch, credit in zip(batches, of_method, strict=True):
            one_step.add(batch, [credit], sampling)
        hidden = _hidden_value(sampled, of_method)
        base = hidden.failed_base, hidden.succeeded_base
        measures = one_step.measures() | {
            "concordance": on_policy[name],
            "concordance_optimal": optimal[name],
            "auroc_failed": hidden.failed,
            "auroc_succeeded": hidden.succeeded,
            "auroc_failed_raw": hidden.failed_raw,
            "auroc_succeeded_raw": hidden.succeeded_raw,
            "coverage": coverage(of_method),
        }
        methods[name] = Measures(**{field.name: measures[field.name] for field in fields(Measures)})
    natural = start.step(np.append(evaluator.natural, np.zeros((1, len(mdp.actions))), axis=0).ravel())
    small, large = (float(start.relative_gains([natural["gradient", kl]], kl)[0]) for kl in KLS)
    return Measured(methods, (small, large), base, undefined)


def _hidden_value(sampled: _Sampled, assigned: Sequence[Credit]) -> HiddenValue:
    """M5 of one method over all groups."""
    raw = np.concatenate([credit.flat_advantages for credit in assigned])
    centered = np.concatenate(
        [
            centered_within_states(credit.flat_advantages, at.state)
            for credit, at in zip(assigned, sampled.turns, strict=True)
        ]
    )
    return hidden_value(sampled.advantage, centered, raw, sampled.success)


def _concordances(
    assigned: Mapping[str, Sequence[Credit]], turns: Sequence[IndexedTurns], values: NDArray[np.float64]
) -> dict[str, float]:
    """M4 of every method over the first groups."""
    sums = {name: Concordance(0.0, 0.0) for name in assigned}
    for number, at in enumerate(turns[:CONCORDANCE_GROUPS]):
        stacked = np.stack([of_method[number].flat_advantages for of_method in assigned.values()])
        for name, one in zip(assigned, pairwise_concordance(at, stacked, values), strict=True):
            sums[name] = Concordance(sums[name].agreed + one.agreed, sums[name].total + one.total)
    return {name: total.fraction for name, total in sums.items()}
