"""Cells of the exact benchmark: kind of task × initial success × group size; one task of a cell is one job.

Another ``seed`` gives other tasks and rollouts. Within a cell everything is paired by task, and all group sizes have the
same tasks and initial policies.

A job measures credit offline and learns exact curves of all methods: same start, random numbers and KL divergence per update.
A curve's result is the area under exact J against *environment turns*: a group without learning signal still uses up its
turns, and a policy that needs fewer turns per episode gets more updates from the same budget.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.annotation_sources import HELD_OUT
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.exact.simulate import ArrayGroup, simulate
from creditflow.train.bench.exact.tasks import exact_tasks
from creditflow.train.bench.exact.values import logits_with_success, softmax, state_occupancy
from creditflow.train.bench.learning.batch import Batch, Draw, Sampling
from creditflow.train.bench.learning.learner import KLUpdate, Learning
from creditflow.train.bench.learning.one_step import Measured, SampledBatch, Start, measure_batches
from creditflow.train.bench.learning.policy import Evaluation, Search, table_policy
from creditflow.train.bench.learning.stack import StackedTasks
from creditflow.train.bench.methods import Generators
from creditflow.train.bench.presets import ExactWork
from creditflow.train.settings.update import LossConfig

__all__ = [
    "SEARCH",
    "SUM_OVER_TURNS",
    "Cell",
    "assemble",
    "cells_of",
    "learn_exactly",
    "measure",
    "run_task",
    "starts_of",
]

MAX_FAILED_STARTS: Final = 20  # consecutive tasks without an initial policy of the cell's success rate
MAX_UPDATE_FACTOR = 6  # policies with short episodes get more updates than planned, up to this multiple
POINTS = 12  # of the stored curve


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: a kind of task, the initial success J0, and the group size G."""

    kind: str
    success: float
    size: int

    @property
    def key(self) -> Literal["state", "text"]:
        """The key that schemes compare states by: the text key in aliased tasks."""
        return "text" if self.kind == "alias" else "state"

    def __str__(self) -> str:
        return f"{self.kind}, J0 {self.success}, G {self.size}"


def cells_of(kinds: Sequence[str], work: ExactWork) -> list[Cell]:
    """All cells, in order."""
    return [Cell(k, j, g) for k in kinds for j in work.successes for g in work.sizes]


def run_task(
    suite: str, cell: Cell, work: ExactWork, methods: Sequence[str], seed: int, number: int
) -> dict[str, Any] | None:
    """Run one task of a cell; plain JSON values, or None if the cell has fewer tasks.

    Args:
        suite: spec of the suite.
        cell: cell of the task.
        work: sizes of the benchmark.
        methods: names of schemes and controls.
        seed: seed of tasks and rollouts.
        number: index of the task in the cell, from 0.
    """
    starts = starts_of(suite, cell.kind, cell.success, seed, work.tasks)
    if number >= len(starts):
        return None
    mdp, logits = starts[number]
    rng = np.random.default_rng([seed, number, cell.size, 1])
    measured = measure(mdp, logits, methods, rng, size=cell.size, groups=work.groups[cell.size], key=cell.key)
    rng = np.random.default_rng([seed, number, cell.size, 2])
    learned = learn_exactly(
        mdp, logits, methods, rng, size=cell.size, updates=work.updates[cell.size], kl=work.kl, key=cell.key
    )
    return {
        "task": mdp.name,
        "states": mdp.size,
        "dead_state_fraction": mdp.dead_state_fraction,
        "offline": {name: _plain(measures) for name, measures in measured.methods.items()},
        "curves": {name: asdict(curve) for name, curve in learned.curves.items()},
        "undefined": {**measured.undefined, **learned.undefined},
    }


@lru_cache(maxsize=4)
def starts_of(
    suite: str, kind: str, success: float, seed: int, count: int
) -> tuple[tuple[FiniteMDP, NDArray[np.float64]], ...]:
    """Tasks with initial policies of this success rate; tasks that cannot have one are skipped."""
    rng = np.random.default_rng([seed, int(1000 * success)])
    starts, failures = list[tuple[FiniteMDP, NDArray[np.float64]]](), 0
    for mdp in exact_tasks(suite, kind, seed):
        logits = logits_with_success(mdp, success, rng)
        if logits is not None:
            starts.append((mdp, logits))
        failures = 0 if logits is not None else failures + 1
        if len(starts) == count or failures > MAX_FAILED_STARTS:
            break
    return tuple(starts)


def assemble(cell: Cell, results: Sequence[Mapping[str, Any] | None]) -> dict[str, Any]:
    """Combine the tasks of a cell. A method that is missing in one task is missing in the cell."""
    measured = [task for task in results if task is not None]
    undefined = {name: reason for task in measured for name, reason in task["undefined"].items()}
    methods = [name for name in (measured[0]["offline"] if measured else ()) if name not in undefined]
    offline, curves = {}, {}
    for name in methods:
        offline[name] = _offline_row([task["offline"][name] for task in measured])
        if all(name in task["curves"] for task in measured):
            curves[name] = _curve_row([task["curves"][name] for task in measured])
    return {
        **asdict(cell),
        "tasks": len(measured),
        "task_names": [task["task"] for task in measured],
        "states": _mean([task["states"] for task in measured]),
        "dead_state_fraction": _mean([task["dead_state_fraction"] for task in measured]),
        "offline": offline,
        "curves": curves,
        "undefined": undefined,
    }


def _offline_row(measured: Sequence[Mapping[str, float | None]]) -> dict[str, Any]:
    """By metric the values of the tasks, for intervals and paired tests."""
    return {f"{name}_by_task": [measures[name] for measures in measured] for name in measured[0]}


def _curve_row(curves: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    points = np.mean([curve["points"] for curve in curves], axis=0)
    return {
        "area_by_task": [_rounded(curve["area"]) for curve in curves],
        "final": _mean([curve["final"] for curve in curves]),
        "final_by_task": [_rounded(curve["final"]) for curve in curves],
        "updates": _mean([curve["updates"] for curve in curves]),
        "points": [_rounded(float(x)) for x in points],
    }


def _plain(values: Mapping[str, float]) -> dict[str, float | None]:
    return {name: _rounded(value) if math.isfinite(value) else None for name, value in values.items()}


def _mean(values: Sequence[float | None] | NDArray[np.float64]) -> float | None:
    finite = [value for value in values if value is not None]
    return _rounded(float(np.mean(finite))) if finite else None


def _rounded(x: float) -> float:
    return float(f"{x:.4g}")


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


SEARCH: Final = Search(tolerance=1e-9)
# g = (1/G) Σ_i Σ_t m_it c_it ∇ log π(a_it | s_it), whatever the scheme's own average is
SUM_OVER_TURNS: Final = LossConfig(aggregation="constant", normaliser=1)


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
    policy, stack = softmax(logits), StackedTasks([mdp])
    (held_out_rng,) = rng.spawn(1)  # held-out groups do not change the other random numbers
    groups_ = [simulate(mdp, policy[None], size, rng, name=f"g{i}") for i in range(groups)]
    held_out: list[list[ArrayGroup]] = [[] for _ in groups_]
    if any("[fitted]" in name for name in names):
        held_out = [simulate(mdp, policy[None], HELD_OUT * size, held_out_rng) for _ in groups_]
    shuffling = [Generators([int(rng.integers(2**63))])]
    sampled = [
        SampledBatch(Batch([0], stack, policy, group), earlier, shuffling)
        for group, earlier in zip(groups_, held_out, strict=True)
    ]
    start, sampling = Start(table_policy(logits), [mdp], [0], [], search=SEARCH), Sampling(1, size, SUM_OVER_TURNS, key)
    measured, undefined = measure_batches(start, names, sampled, sampling)
    methods = {}
    for name, one_step in measured.items():
        measures = one_step.measures(by_turn=True)
        methods[name] = {metric: x for metric, x in measures.items() if not metric.startswith("held_out")}
    return Measured(methods, undefined)
