"""Paired differences between two methods of a run, with confidence intervals that suit a handful of tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from creditflow.train.bench.report.statistics import CellMeans, Estimate

__all__ = ["TABLES", "difference"]

TABLES = {"area": ("curves", "area_by_task"), "gain": ("offline", "gain_by_task")}


def difference(cells: Sequence[Mapping[str, Any]], a: str, b: str, *, value: str = "area") -> Estimate:
    """Mean of a − b over cells with its 95 % t-interval over tasks; kinds are strata (``CellMeans``).

    Args:
        cells: cells of one suite.
        a, b: names of the methods.
        value: "area" under the learning curve, or "gain" of one step (M2).
    """
    table, values = TABLES[value]
    measured = [cell for cell in cells if cell[table]]
    rows = [
        [one - other for one, other in zip(cell[table][a][values], cell[table][b][values], strict=True)]
        for cell in measured
    ]
    return Estimate.of(CellMeans(measured, [len(row) for row in rows])(rows))
