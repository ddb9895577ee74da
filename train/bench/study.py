"""The tabular study: all columns over kinds of task × initial success × group size, metrics and learning curves.

Tasks and seeds are fresh in every run of another ``seed``; within a cell everything is paired by task. What the study
was expected to show stands in ``predictions.json``, written before it was run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, Literal

import numpy as np

from creditflow.envs.errors import OracleLimitError
from creditflow.envs.sokoban.levels import parse_level
from creditflow.envs.tasks import load_panel
from creditflow.train.bench.columns import CURVE_COLUMNS, OFFLINE_COLUMNS
from creditflow.train.bench.curves import ExactCurve, learn_exactly
from creditflow.train.bench.grid_layouts import KINDS, grid_mdp, read_layout
from creditflow.train.bench.gridworlds import HORIZON, grid_tasks
from creditflow.train.bench.mdp import FiniteMDP
from creditflow.train.bench.metrics import rank_correlation
from creditflow.train.bench.offline import Measures, measure
from creditflow.train.bench.policies import logits_with_success
from creditflow.train.bench.sokoban_mdp import sokoban_mdp

__all__ = ["PRESETS", "Cell", "StudyPreset", "cells_of", "correlations", "paired", "run_cell", "study_tasks"]

SOKOBAN_KINDS: Final = ("sokoban-few", "sokoban-some", "sokoban-many")  # by the share of dead states
SOKOBAN_HORIZON: Final = 30
SOKOBAN_STATES: Final = 1500  # larger levels are left out of the study
MOST_LOST: Final = 20  # draws in a row without a task that can start at the cell's success rate


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: a kind of task, the initial success J0, and the group size G."""

    kind: str
    success: float
    size: int

    @property
    def key(self) -> Literal["state", "text"]:
        """What schemes compare states by: under aliasing, the text that hides them."""
        return "text" if self.kind == "alias" else "state"


@dataclass(frozen=True, slots=True)
class StudyPreset:
    """How much work a study does.

    Attributes:
        kinds, successes, sizes: the cells.
        tasks: per cell, for the metrics.
        groups: per task and group size, for the metrics.
        curve_tasks: per cell, for the curves.
        updates: turn budget of a curve, in groups of the first policy, per group size.
        kl: of each update.
    """

    kinds: tuple[str, ...]
    successes: tuple[float, ...]
    sizes: tuple[int, ...]
    tasks: int
    groups: Mapping[int, int]
    curve_tasks: int
    updates: Mapping[int, int]
    kl: float = 0.001


GRID_SIZES: Final = (4, 8, 16, 64)
PRESETS: Mapping[str, StudyPreset] = {
    "smoke": StudyPreset(("open", "alias"), (0.5,), (8,), 2, {8: 12}, 1, {8: 4}),
    "quick": StudyPreset(
        KINDS, (0.1, 0.5, 0.9), GRID_SIZES, 2, {4: 40, 8: 30, 16: 20, 64: 8}, 1, {4: 16, 8: 16, 16: 12, 64: 8}
    ),
    "full": StudyPreset(
        KINDS, (0.1, 0.5, 0.9), GRID_SIZES, 6, {4: 100, 8: 80, 16: 50, 64: 20}, 3, {4: 60, 8: 60, 16: 40, 64: 30}
    ),
    # curves long enough to show where a biased credit stops learning
    "long": StudyPreset(("pits", "alias"), (0.1, 0.5), (8, 64), 8, {8: 10, 64: 4}, 8, {8: 100, 64: 60}),
    "sokoban-quick": StudyPreset(SOKOBAN_KINDS, (0.5,), (8,), 2, {8: 16}, 1, {8: 10}),
    "sokoban": StudyPreset(SOKOBAN_KINDS, (0.1, 0.5, 0.9), (8, 16), 6, {8: 40, 16: 24}, 4, {8: 30, 16: 24}),
}


def cells_of(preset: StudyPreset) -> list[Cell]:
    """All cells of a preset, in order."""
    return [Cell(k, j, g) for k in preset.kinds for j in preset.successes for g in preset.sizes]


def study_tasks(kind: str, seed: int) -> Iterator[FiniteMDP]:
    """Tasks of a kind, without end; another seed gives other tasks (Sokoban: another order of the panel's levels)."""
    if kind in KINDS:
        index = 0
        while True:  # sources of growing index ranges would repeat work: each block has its own seed
            source = grid_tasks(kind, seed * 1_000_003 + index, 32)
            for task_id in source.task_ids():
                yield grid_mdp(read_layout(dict(source.get(task_id).content)), HORIZON)
            index += 1
    wanted = kind.removeprefix("sokoban-")
    rows = [row for row in load_panel("sokoban", "standard-v1").rows if str(row.strata["stratum"]).endswith(wanted)]
    order = np.random.default_rng([seed, SOKOBAN_KINDS.index(kind)]).permutation(len(rows))
    while True:
        for place in order.tolist():
            try:
                yield sokoban_mdp(parse_level(str(rows[place].locator["xsb"])), SOKOBAN_HORIZON, cap=SOKOBAN_STATES)
            except OracleLimitError:  # too large for exact tables of many policies: the study says how many states
                continue


def _starts(cell: Cell, seed: int, count: int) -> Iterator[tuple[FiniteMDP, np.ndarray[Any, np.dtype[np.float64]]]]:
    """Tasks of the cell with first policies of its success rate; tasks that cannot have it are passed over."""
    rng = np.random.default_rng([seed, int(1000 * cell.success)])
    found = lost = 0
    for mdp in study_tasks(cell.kind, seed):
        logits = logits_with_success(mdp, cell.success, rng)
        if logits is None:
            lost += 1
            if lost > MOST_LOST:
                return
            continue
        lost = 0
        found += 1
        yield mdp, logits
        if found == count:
            return


def run_cell(cell: Cell, preset: StudyPreset, seed: int, say: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Everything about one cell, as plain numbers.

    Every group size plays the same tasks from the same first policies.
    """
    measured: list[dict[str, Measures]] = []
    natural, states, dead = [], [], []
    curves: list[dict[str, ExactCurve]] = []
    starts = list(_starts(cell, seed, max(preset.tasks, preset.curve_tasks)))
    for number, (mdp, logits) in enumerate(starts):
        states.append(mdp.size)
        dead.append(mdp.dead_share)
        if number < preset.tasks:
            rng = np.random.default_rng([seed, number, cell.size, 1])
            found, more = measure(
                mdp, logits, OFFLINE_COLUMNS, rng, size=cell.size, groups=preset.groups[cell.size], key=cell.key
            )
            measured.append(found)
            natural.append(more)
        if number < preset.curve_tasks:
            rng = np.random.default_rng([seed, number, cell.size, 2])
            curves.append(
                learn_exactly(
                    mdp,
                    logits,
                    CURVE_COLUMNS,
                    rng,
                    size=cell.size,
                    updates=preset.updates[cell.size],
                    kl=preset.kl,
                    key=cell.key,
                )
            )
        say(f"{cell.kind} J0 {cell.success} G {cell.size}: task {number + 1}/{len(starts)}")
    return {
        **asdict(cell),
        "tasks": len(measured),
        "curve_tasks": len(curves),
        "states": _mean(states),
        "dead_share": _mean(dead),
        "natural_gain": _mean(natural),
        "offline": {name: _offline_row(name, measured) for name in OFFLINE_COLUMNS} if measured else {},
        "curves": {name: _curve_row(name, curves) for name in CURVE_COLUMNS} if curves else {},
    }


def _offline_row(name: str, measured: Sequence[Mapping[str, Measures]]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for f in fields(Measures):
        values = [getattr(one[name], f.name) for one in measured]
        row[f.name] = _mean([value for value in values if math.isfinite(value)])
    row["gain_by_task"] = [_rounded(one[name].gain) for one in measured]
    row["cos_batch_by_task"] = [_rounded(one[name].cos_batch) for one in measured]
    return row


def _curve_row(name: str, curves: Sequence[Mapping[str, ExactCurve]]) -> dict[str, Any]:
    return {
        "area_by_task": [_rounded(one[name].area) for one in curves],
        "final": _mean([one[name].final for one in curves]),
        "updates": _mean([float(one[name].updates) for one in curves]),
        "points": [_rounded(float(x)) for x in np.mean([one[name].points for one in curves], axis=0)],
    }


def _mean(values: Sequence[float]) -> float | None:
    return _rounded(float(np.mean(values))) if len(values) else None


def _rounded(x: float) -> float:
    return float(f"{x:.4g}")


def paired(a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    """Mean of a − b over tasks and its standard error (inf for one task)."""
    difference = np.asarray(a) - np.asarray(b)
    n = len(difference)
    return float(difference.mean()), float(difference.std(ddof=1) / np.sqrt(n)) if n > 1 else float("inf")


FIDELITY: Final = ("gain_small", "gain", "cos_batch", "cos_mean", "agree", "agree_efficiency", "failed", "succeeded")


def correlations(cells: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float | None]]:
    """Rank correlation over columns of each offline metric with the area under the curve, averaged over cells.

    Returns:
        By metric: with and without aliased cells, and over the schemes alone (without oracles and spoilt credit).
    """
    result: dict[str, dict[str, float | None]] = {}
    for metric in FIDELITY:
        rows: dict[str, list[float]] = {"plain": [], "alias": [], "plain_schemes": [], "alias_schemes": []}
        for cell in cells:
            if not cell["curves"] or not cell["offline"]:
                continue
            side = "alias" if cell["kind"] == "alias" else "plain"
            for suffix, names in (
                ("", [n for n in cell["curves"] if n in cell["offline"]]),
                (
                    "_schemes",
                    [n for n in cell["curves"] if n in cell["offline"] and "oracle" not in n and "(" not in n],
                ),
            ):
                known = [n for n in names if cell["offline"][n][metric] is not None]
                x = np.array([cell["offline"][n][metric] for n in known])
                y = np.array([np.mean(cell["curves"][n]["area_by_task"]) for n in known])
                value = rank_correlation(x, y)
                if math.isfinite(value):
                    rows[side + suffix].append(value)
        result[metric] = {side: _mean(values) for side, values in rows.items()}
    return result
