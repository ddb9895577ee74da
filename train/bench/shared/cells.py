"""Cells of the suite: task kind × feature map × batch × group size × initial success × optimiser; one layout seed of one is a job.

Everything in a cell is paired by layout seed: all methods have the same tasks, start and random numbers. The samples are the
layout seeds, because the tasks of one layout seed depend on each other through the policy that they share.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import DataError
from creditflow.train.bench.annotation_sources import (
    HELD_OUT,
    StateFeatures,
    one_hot,
    open_annotation_source,
    reads_earlier,
)
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.exact.simulate import ArrayGroup
from creditflow.train.bench.learning.batch import Sampling, draws
from creditflow.train.bench.learning.learner import KLUpdate, Learning, Update
from creditflow.train.bench.learning.one_step import Measured, OneStep, Start
from creditflow.train.bench.learning.policy import Evaluation, LinearPolicy, Policy, make_features, policy_with_success
from creditflow.train.bench.learning.stack import StackedTasks
from creditflow.train.bench.names import MethodName
from creditflow.train.bench.presets import SharedWork
from creditflow.train.bench.shared.tasks import SHARED_KINDS, Keys, ViewedTask, keys_of, kind_of_tasks, viewed_tasks
from creditflow.train.settings.update import LossConfig
from creditflow.wrappers.credit import Credit, CreditError

__all__ = [
    "SharedCell",
    "assemble",
    "cells_of",
    "learn_shared",
    "learned_names",
    "measure_shared",
    "run_unit",
    "start_of",
    "trained_tasks",
]

STANDARD_SUCCESS: Final = 0.25
VARIED: Final = "pits"  # kind of the cells in which one property is varied
MIN_BATCHES, MAX_BATCHES = 3, 32
Aggregation = Literal["token_mean", "trajectory_mean"]
STANDARD_AGGREGATION: Final[Aggregation] = "token_mean"


@dataclass(frozen=True, slots=True)
class SharedCell:
    """One cell.

    Attributes:
        kind: task kind.
        features: feature map of the policy.
        batch: B, tasks of an update.
        size: G, rollouts per task.
        success: J0, mean exact success of the initial policy on the training tasks.
        aggregation: loss aggregation, the same for all methods.
    """

    kind: str
    features: str = "local"
    batch: int = 16
    size: int = 8
    success: float = STANDARD_SUCCESS
    aggregation: Aggregation = STANDARD_AGGREGATION

    @property
    def keys(self) -> Keys:
        """Whether each state has its own key, several states share one, or every visit has a new one."""
        return keys_of(self.kind)

    @property
    def stream(self) -> int:
        """The number of the kind's random streams."""
        return SHARED_KINDS[self.kind]

    def tasks(self, seed: int, unit: int, count: int) -> list[ViewedTask]:
        """The tasks of a layout seed; see ``viewed_tasks``."""
        return viewed_tasks(self.kind, seed, unit, count)

    @property
    def condition(self) -> str:
        """What differs from the standard setting, besides batch and group size."""
        differences = [
            "" if self.features == "local" else f"{self.features} features",
            "" if self.success == STANDARD_SUCCESS else f"J0 {self.success:g}",
            "" if self.aggregation == STANDARD_AGGREGATION else self.aggregation.replace("_", " "),
        ]
        return ", ".join(filter(None, differences))

    @property
    def sampling(self) -> Sampling:
        """How the updates of the cell are sampled."""
        loss = LossConfig(aggregation=self.aggregation)
        return Sampling(
            self.batch, self.size, loss, "text" if self.keys == "aliased" else "state", self.keys == "fresh"
        )

    def update(self, work: SharedWork) -> Update:
        """The kind of step."""
        return KLUpdate(work.kl)

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in asdict(self).items())


def cells_of(work: SharedWork) -> list[SharedCell]:
    """All cells: every kind in the standard setting, then one property varied at a time."""
    cells = [SharedCell(kind) for kind in work.kinds]
    cells += [SharedCell(VARIED, aggregation=aggregation) for aggregation in work.aggregations]
    cells += [SharedCell(VARIED, features) for features in work.features]
    cells += [SharedCell(VARIED, batch=batch) for batch in work.batches]
    cells += [SharedCell(VARIED, size=size) for size in work.sizes]
    return list(dict.fromkeys(cells))


def learned_names(schemes: Sequence[str], controls: Sequence[str]) -> list[str]:
    """The methods whose learning curves are measured: all but corrupted controls, of which the first shuffled and flipped one."""
    first: dict[tuple[str, ...], str] = {}  # by corruptions
    for name in controls:
        first.setdefault(MethodName.parse(name).corruptions, name)
    return [
        *schemes,
        *(name for name in controls if not (of := MethodName.parse(name).corruptions) or first[of] == name),
    ]


def trained_tasks(cell: SharedCell, work: SharedWork) -> int:
    """Number of training tasks: the preset's, or the tasks of an update if these are more."""
    return max(work.train, cell.batch)


def start_of(cell: SharedCell, work: SharedWork, seed: int, unit: int) -> tuple[list[ViewedTask], LinearPolicy]:
    """The tasks of a layout seed, training tasks first, and the initial policy.

    Raises:
        DataError: there are too few tasks, or no policy over these features has the cell's success rate.
    """
    trained = trained_tasks(cell, work)
    tasks = cell.tasks(seed, unit, trained + work.held_out)
    stack = StackedTasks([task.mdp for task in tasks])
    features = make_features(cell.features, [task.parts for task in tasks])
    return tasks, policy_with_success(stack, features, range(trained), cell.success)


def run_unit(
    cell: SharedCell, work: SharedWork, methods: Sequence[str], learned: Sequence[str], seed: int, unit: int
) -> dict[str, Any]:
    """Run one layout seed of a cell; plain JSON values.

    Args:
        cell: the cell.
        work: sizes of the benchmark.
        methods: names of the methods whose single steps are measured; may be none.
        learned: names of those whose learning curves are measured.
        seed: seed of tasks and rollouts.
        unit: number of the layout seed.

    Returns:
        "states", mean number of states of a task; "measures" and "curves" by method; "undefined", the reason by method if one
        is missing; or only "impossible", the reason why the cell has no initial policy.
    """
    try:
        tasks, policy = start_of(cell, work, seed, unit)
    except DataError as error:
        return {"impossible": str(error)}
    trained = len(tasks) - work.held_out
    mdps, train, held_out = [task.mdp for task in tasks], range(trained), range(trained, len(tasks))
    seen = one_hot(mdps, [task.parts for task in tasks])
    stream = [seed, unit, cell.stream, cell.batch, cell.size]
    undefined, measures = dict[str, str](), dict[str, dict[str, float]]()
    if methods:
        measured = measure_shared(
            policy,
            mdps,
            train,
            held_out,
            methods,
            np.random.default_rng([*stream, 1]),
            sampling=cell.sampling,
            batches=min(max(work.groups // cell.batch, MIN_BATCHES), MAX_BATCHES),
            features=seen,
        )
        undefined |= measured.undefined
        measures |= measured.methods
    learned_curves = learn_shared(
        policy,
        mdps,
        train,
        held_out,
        learned,
        np.random.default_rng([*stream, 2]),
        sampling=cell.sampling,
        update=cell.update(work),
        updates=work.updates,
        every=work.every,
        features=seen,
    )
    undefined |= learned_curves.undefined
    return {
        "states": float(np.mean([mdp.size for mdp in mdps])),
        "measures": {name: _plain(of_method) for name, of_method in measures.items()},
        "curves": {
            name: [_rounded(curve.train), _rounded(curve.held_out)] for name, curve in learned_curves.curves.items()
        },
        "undefined": undefined,
    }


def assemble(cell: SharedCell, parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Combine the layout seeds of a cell. A method that is missing under one of them is missing in the cell.

    Returns:
        "study", the setting with results by endpoint and method, rows are layout seeds: the endpoints area, final, held_out_area and held_out_final of the curves and the measures of single steps; "curves", by method the mean of the training and of the held-out
        curve; "states"; "undefined".
    """
    undefined = {name: reason for of_unit in parts for name, reason in of_unit["undefined"].items()}

    def common(table: str) -> list[str]:
        return [
            name
            for name in parts[0][table]
            if name not in undefined and all(name in of_unit[table] for of_unit in parts)
        ]

    learned = {
        name: np.array([of_unit["curves"][name] for of_unit in parts]) for name in common("curves")
    }  # (U, 2, points)
    endpoints: dict[str, dict[str, list[list[float | None]]]] = {}
    for side, prefix in enumerate(("", "held_out_")):
        endpoints[f"{prefix}area"] = {n: _column(x[:, side, 1:].mean(axis=1)) for n, x in learned.items()}
        endpoints[f"{prefix}final"] = {n: _column(x[:, side, -1]) for n, x in learned.items()}
    for metric in next(iter(parts[0]["measures"].values()), {}):
        endpoints[metric] = {
            name: [[of_unit["measures"][name][metric]] for of_unit in parts] for name in common("measures")
        }
    return {
        "study": {
            "regime": "shared policy",
            "kind": kind_of_tasks(cell.kind),
            "keys": cell.keys,
            "batch": cell.batch,
            "size": cell.size,
            "condition": cell.condition,
            "endpoints": endpoints,
        },
        "curves": {name: [_rounded(side) for side in x.mean(axis=0)] for name, x in learned.items()},
        "states": float(np.mean([of_unit["states"] for of_unit in parts])),
        "undefined": undefined,
    }


def _column(values: Any) -> list[list[float | None]]:
    return [[float(f"{x:.5g}")] for x in values]


def _rounded(values: Any) -> list[float]:
    return [float(f"{x:.5g}") for x in values]


def _plain(values: Mapping[str, float]) -> dict[str, float | None]:
    return {name: float(f"{x:.5g}") if math.isfinite(x) else None for name, x in values.items()}


Floats = NDArray[np.float64]


class SharedCurve(NamedTuple):
    """Learning curve of one method: exact success at every measured point, of which the first is the start.

    Attributes:
        train: float64 (points,), mean over the training tasks.
        held_out: float64 (points,), mean over the held-out tasks; nan if there are none.
    """

    train: Floats
    held_out: Floats


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
    update: Update,
    updates: int,
    every: int = 10,
    features: StateFeatures | None = None,
) -> SharedCurves:
    """Train a shared policy with every method; a scheme that cannot score one of its updates is left out.

    Args:
        policy: the initial policy.
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


def measure_shared(
    policy: Policy,
    mdps: Sequence[FiniteMDP],
    train: Sequence[int],
    held_out: Sequence[int],
    names: Sequence[str],
    rng: np.random.Generator,
    *,
    sampling: Sampling,
    batches: int,
    features: StateFeatures | None = None,
) -> Measured:
    """Measure all methods on the same ``batches`` newly sampled batches.

    ``X[fitted]`` and ``X[linear]`` see ``HELD_OUT`` additional groups of the same task
    for each measured one.

    Args:
        policy: the policy that is sampled.
        mdps: all tasks.
        train, held_out: indices of the tasks.
        names: names of the methods.
        rng: source of randomness of tasks, rollouts and shuffling.
        sampling: tasks and rollouts of a batch, and the loss.
        batches: number of batches.
        features: what fitted critics see of a state.
    """
    (fitting_rng,) = rng.spawn(1)  # annotations do not change the other random numbers
    fitted = any(map(reads_earlier, names))
    start = Start(policy, mdps, train, held_out)
    measured, undefined = {name: OneStep(start) for name in names}, dict[str, str]()
    for draw in islice(draws(train, sampling.batch, rng), batches):
        (batch,) = sampling.batches(mdps, draw, [policy])
        earlier: list[ArrayGroup] = []
        if fitted:
            before = draw._replace(rng=fitting_rng, name=f"{draw.name}-earlier")
            earlier = sampling.batches(mdps, before, [policy], size=HELD_OUT * sampling.size)[0].groups
        cache: dict[str, list[Credit]] = {}  # of this batch
        for name in list(measured):
            source = open_annotation_source(name, mdps[0].horizon, sampling.key, features)
            for group in earlier:
                source.update(group)
            try:
                credits_ = batch.credit(name, source, draw.corruption, sampling.key, cache)
            except CreditError as error:
                if "oracle" in name:  # an oracle without credit is a defect
                    raise
                undefined[name] = str(error)
                del measured[name]
            else:
                measured[name].add(batch, credits_, sampling)
    return Measured({name: one_step.measures() for name, one_step in measured.items()}, undefined)
