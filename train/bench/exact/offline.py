"""Metrics M1 to M5 of all methods on the same simulated groups of one task: their formulas, then their measurement."""

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
from creditflow.train.statistics import auroc
from creditflow.wrappers.credit import Credit, CreditError
from creditflow.wrappers.records.group import Group

__all__ = [
    "SEARCH",
    "SUM_OVER_TURNS",
    "Concordance",
    "HiddenValue",
    "Measured",
    "Measures",
    "centered_within_states",
    "hidden_value",
    "measure",
    "pairwise_concordance",
]

Floats = NDArray[np.float64]
TOLERANCE = 1e-9  # smaller differences of exact values are rounding errors


class Concordance(NamedTuple):
    """M4: concordance of credit with action values within a state; as sums, so that groups can be added.

    Attributes:
        agreed: Σ |ΔQ| over pairs ordered as Q orders them, ties of credit counted half.
        total: Σ |ΔQ| over all pairs.
    """

    agreed: float
    total: float

    @property
    def fraction(self) -> float:
        """In [0, 1]; 0.5 is chance; nan without pairs."""
        return self.agreed / self.total if self.total else float("nan")


def pairwise_concordance(indexed: IndexedTurns, credit_rows: Floats, action_values: Floats) -> list[Concordance]:
    """M4 over pairs of turns in one state with different actions; one result per row of ``credit_rows``.

    Two turns in one state seldom have equally many turns left. To compare actions and not the turns left, ΔQ is the
    difference of the two actions' values, averaged over both numbers of turns left.

    Args:
        indexed: the group's turns.
        credit_rows: float64 (C, N), credit of C methods.
        action_values: float64 (H+1, S, A), Q by turns left; or (S, A).
    """
    agreed, total = np.zeros(len(credit_rows)), 0.0
    order = np.argsort(indexed.state, kind="stable")
    order = order[indexed.action[order] >= 0]
    bounds = np.flatnonzero(np.diff(indexed.state[order], prepend=-1, append=-1))
    for a, b in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        turns = order[a:b]
        state, action = int(indexed.state[turns[0]]), indexed.action[turns]
        if (action == action[0]).all():
            continue
        if action_values.ndim == 3:
            table = action_values[indexed.left[turns], state]  # (n, A): every action with each turn's turns left
            value = table[np.arange(len(turns)), action]
            swapped = table[:, action]  # [u, v]: the action of v with the turns left of u
            difference = 0.5 * (value[:, None] - swapped + swapped.T - value[None, :])
        else:
            value = action_values[state, action]
            difference = value[:, None] - value[None, :]
        upper = np.triu(np.ones(difference.shape, np.bool_), 1) & (action[:, None] != action[None, :])
        u, v = np.nonzero(upper & (np.abs(difference) > TOLERANCE))
        if not len(u):
            continue
        weight, sign = np.abs(difference[u, v]), np.sign(difference[u, v])
        ordered = np.sign(_rounded(credit_rows[:, turns[u]] - credit_rows[:, turns[v]]))
        agreed += ((ordered == sign) + 0.5 * (ordered == 0)) @ weight
        total += float(weight.sum())
    return [Concordance(float(x), total) for x in agreed]


def _rounded(x: Floats) -> Floats:
    """Values with rounding errors set to 0, so that they count as ties."""
    return np.where(np.abs(x) < 1e-12, 0.0, x)


class HiddenValue(NamedTuple):
    """M5: does credit separate good turns from bad ones within failed and within successful rollouts?

    Attributes:
        failed, succeeded: AUROC of centered credit for A^π > τ against A^π < −τ in failed and in successful rollouts.
        failed_raw, succeeded_raw: the same of raw credit.
        failed_base, succeeded_base: fraction of good turns among good and bad ones.
    """

    failed: float
    succeeded: float
    failed_raw: float
    succeeded_raw: float
    failed_base: float
    succeeded_base: float


def hidden_value(
    advantages: Floats, centered: Floats, raw: Floats, success: NDArray[np.bool_], threshold: float = 0.01
) -> HiddenValue:
    """M5 over the pooled turns of many groups; each argument (N,).

    Args:
        advantages: A^π.
        centered: credit minus its mean over the turns in the same state of the group.
        raw: credit.
        success: whether the turn belongs to a successful rollout.
        threshold: τ.
    """
    good, bad = advantages > threshold, advantages < -threshold
    areas = [
        auroc(_rounded(credit[(good | bad) & side]), good[(good | bad) & side])
        for credit in (centered, raw)
        for side in (~success, success)
    ]
    bases = [
        float((good & side).sum() / n) if (n := int(((good | bad) & side).sum())) else float("nan")
        for side in (~success, success)
    ]
    return HiddenValue(*areas, *bases)


def centered_within_states(credit: Floats, state: NDArray[np.int64]) -> Floats:
    """Credit (N,) minus its mean over the turns with the same state index (N,); float64 (N,)."""
    count = np.bincount(state)
    return credit - (np.bincount(state, credit) / np.maximum(count, 1))[state]


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
    held_out = []
    if any("[fitted]" in name for name in names):
        held_out = [simulate(mdp, policy[None], HELD_OUT * size, held_out_rng)[0] for _ in sampled.groups]

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
        for name, concordance in zip(assigned, pairwise_concordance(at, stacked, values), strict=True):
            sums[name] = Concordance(sums[name].agreed + concordance.agreed, sums[name].total + concordance.total)
    return {name: total.fraction for name, total in sums.items()}
