"""Cells of the exact benchmark: kind of task × initial success × group size; one task of a cell is one job.

Another ``seed`` gives other tasks and rollouts. Within a cell everything is paired by task, and all group sizes have the
same tasks and initial policies.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.exact.curves import learn_exactly
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.exact.offline import Measures, measure
from creditflow.train.bench.exact.policies import logits_with_success
from creditflow.train.bench.exact.tasks import exact_tasks
from creditflow.train.bench.presets import ExactWork

__all__ = ["Cell", "assemble", "cells_of", "run_task", "starts_of"]

MAX_FAILED_STARTS: Final = 20  # consecutive tasks without an initial policy of the cell's success rate


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
        "natural": list(measured.natural),
        "base": [x if math.isfinite(x) else None for x in measured.base],
        "offline": {name: _plain(asdict(measures)) for name, measures in measured.methods.items()},
        "curves": {name: asdict(curve) for name, curve in learned.curves.items()},
        "undefined": {**measured.undefined, **learned.undefined},
    }


@lru_cache(maxsize=4)
def starts_of(
    suite: str, kind: str, success: float, seed: int, count: int
) -> tuple[tuple[FiniteMDP, NDArray[np.float64]], ...]:
    """Tasks with initial policies of this success rate; tasks that cannot have one are skipped."""
    rng = np.random.default_rng([seed, int(1000 * success)])
    found, failures = list[tuple[FiniteMDP, NDArray[np.float64]]](), 0
    for mdp in exact_tasks(suite, kind, seed):
        logits = logits_with_success(mdp, success, rng)
        if logits is not None:
            found.append((mdp, logits))
        failures = 0 if logits is not None else failures + 1
        if len(found) == count or failures > MAX_FAILED_STARTS:
            break
    return tuple(found)


def assemble(cell: Cell, parts: Sequence[Mapping[str, Any] | None]) -> dict[str, Any]:
    """Combine the tasks of a cell. A method that is missing in one task is missing in the cell."""
    known = [part for part in parts if part is not None]
    undefined = {name: reason for part in known for name, reason in part["undefined"].items()}
    methods = [name for name in (known[0]["offline"] if known else ()) if name not in undefined]
    natural = np.array([part["natural"] for part in known]).reshape(len(known), 2)
    return {
        **asdict(cell),
        "tasks": len(known),
        "task_names": [part["task"] for part in known],
        "states": _mean([part["states"] for part in known]),
        "dead_state_fraction": _mean([part["dead_state_fraction"] for part in known]),
        "natural_gain_small": _mean(natural[:, 0]),
        "natural_gain": _mean(natural[:, 1]),
        "base_rate_failed": _mean([part["base"][0] for part in known]),
        "base_rate_succeeded": _mean([part["base"][1] for part in known]),
        "offline": {name: _offline_row([part["offline"][name] for part in known]) for name in methods},
        "curves": {
            name: _curve_row([part["curves"][name] for part in known])
            for name in methods
            if all(name in part["curves"] for part in known)
        },
        "undefined": undefined,
    }


# metrics stored for every task, for intervals and paired tests; all but "variance", whose median over cells is reported
BY_TASK: Final = tuple(field.name for field in fields(Measures) if field.name != "variance")


def _offline_row(measured: Sequence[Mapping[str, float | None]]) -> dict[str, Any]:
    row: dict[str, Any] = {f.name: _mean([one[f.name] for one in measured]) for f in fields(Measures)}
    return row | {f"{name}_by_task": [one[name] for one in measured] for name in BY_TASK}


def _curve_row(curves: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "area_by_task": [_rounded(one["area"]) for one in curves],
        "final": _mean([one["final"] for one in curves]),
        "final_by_task": [_rounded(one["final"]) for one in curves],
        "updates": _mean([one["updates"] for one in curves]),
        "points": [_rounded(float(x)) for x in np.mean([one["points"] for one in curves], axis=0)],
    }


def _plain(values: Mapping[str, float]) -> dict[str, float | None]:
    return {name: _rounded(value) if math.isfinite(value) else None for name, value in values.items()}


def _mean(values: Sequence[float | None] | NDArray[np.float64]) -> float | None:
    known = [value for value in values if value is not None]
    return _rounded(float(np.mean(known))) if known else None


def _rounded(x: float) -> float:
    return float(f"{x:.4g}")
