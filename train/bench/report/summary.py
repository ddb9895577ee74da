"""A suite's cells combined: estimates with confidence intervals, and which metric predicts learning."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from creditflow.train.bench.report.statistics import CellMeans, Estimate
from creditflow.train.bench.variants.names import MethodName
from creditflow.train.statistics import ClusteredMean, spearman
from creditflow.wrappers import credit

__all__ = ["BASELINE", "FIDELITY", "Summary", "baseline", "correlations", "main_schemes", "methods_of"]

BASELINE: Final = "grpo"
FIDELITY: Final = (
    "gain_small", "gain", "cos_batch", "cos_mean", "concordance", "concordance_optimal", "auroc_failed", "auroc_succeeded"
)  # fmt: skip
CellRow = Mapping[str, Any]


def methods_of(cells: Sequence[CellRow], table: str = "offline") -> list[str]:
    """Names of the methods that every cell has, in the order of the first; ``table`` is "offline" or "curves"."""
    return [name for name in cells[0][table] if all(name in cell[table] for cell in cells)]


def main_schemes(schemes: Sequence[str]) -> list[str]:
    """The registered schemes, with annotation source and values of parameters or without, but not named variants; all if there are none."""
    return [n for n in schemes if MethodName.parse(n).scheme in credit.names()] or list(schemes)


def baseline(methods: Sequence[str]) -> str:
    """The method that others are compared with: grpo, or the first method if it is missing."""
    return BASELINE if BASELINE in methods else methods[0]


class Summary:
    """Estimates over cells.

    Args:
        cells: cells of one suite, or some of them.
    """

    def __init__(self, cells: Sequence[CellRow]) -> None:
        self.cells = [cell for cell in cells if cell["offline"]]
        self.methods = methods_of(self.cells)
        learned = [cell for cell in self.cells if cell["curves"]]
        self.learned = methods_of(learned, "curves") if learned else []
        self._learned_cells = learned
        self._offline = CellMeans(self.cells)
        if learned:
            first = self.learned[0]
            self._curves = CellMeans(learned, [len(cell["curves"][first]["area_by_task"]) for cell in learned])

    def gain(self, method: str, metric: str = "gain", over: str = "") -> Estimate:
        """M2 of a method ("gain" at KL .01, "gain_small" at .001), or its difference from another method's, paired by task."""
        return Estimate.of(self.over_tasks(method, metric, over))

    def area(self, method: str, over: str = "") -> Estimate:
        """Area under the learning curve, or its difference from another method's, paired by task."""
        return Estimate.of(self.over_tasks(method, "area", over))

    def over_tasks(self, method: str, metric: str, over: str = "") -> ClusteredMean:
        """M1 ("cos_batch"), M2 ("gain", "gain_small") or "area" of a method, or its difference, with the standard error over tasks."""
        if metric == "area":
            return self._curves(_differences(self._learned_cells, "curves", "area_by_task", method, over))
        return self._offline(_differences(self.cells, "offline", f"{metric}_by_task", method, over))

    def mean(self, method: str, metric: str) -> Estimate:
        """A metric's mean over cells (its median for "variance"); nan where it is never defined.

        The interval is over tasks; it is nan for a median, and in results of releases that stored means over tasks only.
        """
        rows = [cell["offline"][method] for cell in self.cells]
        known = [value for row in rows if (value := row[metric]) is not None]
        if not known:
            return Estimate(math.nan, math.nan, math.nan)
        if metric == "variance":
            return Estimate(float(np.median(known)), math.nan, math.nan)
        values = [row.get(f"{metric}_by_task") for row in rows]
        return _over_known_tasks(self.cells, values) or Estimate(float(np.mean(known)), math.nan, math.nan)

    def final(self, method: str) -> Estimate:
        """Exact success at the end of the turn budget, mean over cells; the interval as in ``mean``."""
        rows = [cell["curves"][method] for cell in self._learned_cells]
        found = _over_known_tasks(self._learned_cells, [row.get("final_by_task") for row in rows])
        return found or Estimate(float(np.mean([row["final"] for row in rows])), math.nan, math.nan)

    def over_cells(self, name: str) -> float:
        """Mean over cells of a value of the cell itself, not of a method; nan where it is unknown."""
        known = [cell[name] for cell in self.cells if cell.get(name) is not None]
        return float(np.mean(known)) if known else float("nan")


def _over_known_tasks(cells: Sequence[CellRow], values: Sequence[Sequence[float | None] | None]) -> Estimate | None:
    """Mean over cells of means over the tasks that have a value; None if a cell does not store its tasks."""
    kept: list[CellRow] = []
    known: list[list[float]] = []
    for cell, row in zip(cells, values, strict=True):
        if row is None:
            return None
        pairs = [(name, value) for name, value in zip(cell["task_names"], row, strict=False) if value is not None]
        if pairs:
            kept.append({"kind": cell["kind"], "task_names": [name for name, _ in pairs]})
            known.append([value for _, value in pairs])
    return Estimate.of(CellMeans(kept)(known)) if kept else None


def _differences(cells: Sequence[CellRow], table: str, values: str, method: str, over: str) -> list[list[float]]:
    own = [cell[table][method][values] for cell in cells]
    if not over:
        return own
    others = [cell[table][over][values] for cell in cells]
    return [[a - b for a, b in zip(x, y, strict=True)] for x, y in zip(own, others, strict=True)]


def correlations(cells: Sequence[CellRow]) -> dict[str, dict[str, float | None]]:
    """Rank correlation over methods of each offline metric with the area under the curve, averaged over cells.

    Returns:
        By metric: "plain" for cells without and "alias" for cells with aliased text keys, over all methods; with the suffix
        "_schemes" over the schemes alone, without controls.
    """
    result: dict[str, dict[str, float | None]] = {}
    for metric in FIDELITY:
        rows: dict[str, list[float]] = {"plain": [], "alias": [], "plain_schemes": [], "alias_schemes": []}
        for cell in cells:
            if not cell["curves"] or not cell["offline"]:
                continue
            side = "alias" if cell["kind"] == "alias" else "plain"
            both = [n for n in cell["curves"] if n in cell["offline"]]
            schemes = [n for n in both if "oracle" not in n and "(" not in n and "[exact]" not in n]
            for suffix, names in (("", both), ("_schemes", schemes)):
                known = [n for n in names if cell["offline"][n][metric] is not None]
                x = np.array([cell["offline"][n][metric] for n in known])
                y = np.array([np.mean(cell["curves"][n]["area_by_task"]) for n in known])
                value = spearman(x, y)
                if math.isfinite(value):
                    rows[side + suffix].append(value)
        result[metric] = {side: float(f"{np.mean(v):.4g}") if v else None for side, v in rows.items()}
    return result
