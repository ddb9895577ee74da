"""How good the gradient of an estimator is: unbiasedness and improvement, on tables and with a policy shared by many tasks.

On tables every group is a batch of its own; with a shared policy a batch has many tasks, so that normalisation over
the batch shows. Samples are tasks (tables) and layout seeds (shared policy).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Any, Final

import numpy as np

from creditflow.envs.errors import ConfigError
from creditflow.train.bench.exact.cells import starts_of
from creditflow.train.bench.exact.offline import measure
from creditflow.train.bench.presets import SharedWork
from creditflow.train.bench.report.statistics import CellMeans, Estimate
from creditflow.train.bench.shared.cells import SharedCell, start_of
from creditflow.train.bench.shared.metrics import measure_shared

__all__ = ["WORK", "GradientWork", "gradient_tables"]

# M1 and M3: bias; M2: improvement by one small step
METRICS: Final = ("cos_mean", "bias2", "variance", "gain")


@dataclass(frozen=True)
class GradientWork:
    """Sizes.

    Attributes:
        kinds: kinds of grid.
        tasks: tasks of each kind, as tables.
        groups: groups per task.
        size: rollouts in a group.
        success: success rate of the initial policies.
        units: layout seeds of the shared policy.
        batches: batches per layout seed, of 8 tasks.
    """

    kinds: tuple[str, ...]
    tasks: int
    groups: int
    units: int
    batches: int
    size: int = 8
    success: float = 0.25


WORK: Final[Mapping[str, GradientWork]] = {
    "smoke": GradientWork(("pits",), 2, 8, 2, 2),
    "quick": GradientWork(("open", "pits", "slip"), 4, 100, 4, 12),
}
BATCH: Final = 8


def gradient_tables(names: Sequence[str], work: GradientWork, seed: int) -> dict[str, Any]:
    """Metrics of methods in both regimes, and the reasons why methods have none.

    Returns:
        "tables" and "shared", each by method and metric [mean, low, high]; "undefined" by regime and method.
    """
    tables, undefined_tables = _tables(names, work, seed)
    shared, undefined_shared = _shared(names, work, seed)
    return {
        "tables": tables, "shared": shared, "work": asdict(work),
        "undefined": {"tables": undefined_tables, "shared": undefined_shared},
    }  # fmt: skip


def _tables(names: Sequence[str], work: GradientWork, seed: int) -> tuple[dict[str, Any], dict[str, str]]:
    cells, measured, undefined = list[dict[str, Any]](), list[list[Mapping[str, Any]]](), dict[str, str]()
    for kind in work.kinds:
        starts = starts_of("grids", kind, work.success, seed, work.tasks)
        if not starts:
            raise ConfigError(f"no grid of kind {kind!r} has an initial policy of success {work.success}")
        cells.append({"kind": kind, "task_names": [mdp.name for mdp, _ in starts]})
        measured.append([])
        for number, (mdp, logits) in enumerate(starts):
            rng = np.random.default_rng([seed, number, 5])
            measurements = measure(mdp, logits, names, rng, size=work.size, groups=work.groups)
            undefined |= measurements.undefined
            measured[-1].append(measurements.methods)
    return _estimates(names, cells, measured, undefined), undefined


def _shared(names: Sequence[str], work: GradientWork, seed: int) -> tuple[dict[str, Any], dict[str, str]]:
    cells, measured, undefined = list[dict[str, Any]](), list[list[Mapping[str, Any]]](), dict[str, str]()
    sizes = SharedWork(
        units=work.units, train=2 * BATCH, held_out=0, groups=work.batches * BATCH, updates=0, every=1, kinds=work.kinds
    )
    for kind in work.kinds:
        # one aggregation for all, in which the sum over turns is that of the policy gradient
        cell = SharedCell(kind, batch=BATCH, size=work.size, success=work.success, aggregation="token_mean")
        cells.append({"kind": kind, "task_names": [f"{kind} {unit}" for unit in range(work.units)]})
        measured.append([])
        for unit in range(work.units):
            tasks, policy = start_of(cell, sizes, seed, unit)
            measurements = measure_shared(
                policy, [task.mdp for task in tasks], range(len(tasks)), range(0), names,
                np.random.default_rng([seed, unit, 6]), sampling=cell.sampling, batches=work.batches,
            )  # fmt: skip
            undefined |= measurements.undefined
            measured[-1].append(measurements.methods)
    return _estimates(names, cells, measured, undefined), undefined


def _estimates(
    names: Sequence[str],
    cells: Sequence[Mapping[str, Any]],
    measured: Sequence[Sequence[Mapping[str, Any]]],
    undefined: Mapping[str, str],
) -> dict[str, dict[str, list[float | None]]]:
    means = CellMeans(cells)
    estimates = dict[str, dict[str, list[float | None]]]()
    for name in names:
        if name in undefined:
            continue
        estimates[name] = {}
        for metric in METRICS:
            values = [_metric_by_task(row, name, metric) for row in measured]
            estimates[name][metric] = [_rounded(x) for x in astuple(Estimate.of(means(values)))]
    return estimates


def _metric_by_task(measured: Sequence[Mapping[str, Any]], name: str, metric: str) -> list[float]:
    return [getattr(measures[name], metric) for measures in measured]


def _rounded(x: float) -> float | None:
    return float(f"{x:.5g}") if math.isfinite(x) else None
