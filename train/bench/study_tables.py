"""The study's JSON as plain-text tables: what wins, ties and loses, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from creditflow.train.bench.sanity import ERRORS
from creditflow.train.bench.study import correlations, paired
from creditflow.train.bench.tables import text_table

__all__ = ["study_text"]

CellRow = Mapping[str, Any]


def study_text(study: Mapping[str, Any]) -> str:
    """All tables of a study, one under the other."""
    cells = [cell for cell in study["cells"] if cell["tasks"]]
    parts = ["Efficiency (M2 at KL .01): gain of exact success relative to that of its gradient; mean over cells"]
    parts.append(text_table(_gain_rows(cells)))
    parts.append("Bias and variance, directions, concordance, hidden value; mean over cells (median for variance)")
    parts.append(text_table(_metric_rows(cells)))
    if any(cell["curves"] for cell in cells):
        parts.append("Area under exact success against environment turns, points above gigpo (mean ± standard error)")
        parts.append(text_table(_area_rows(cells)))
        parts.append("Rank correlation over columns with the area under the curve, mean over cells")
        parts.append(text_table(_correlation_rows(cells)))
    parts.append("Predictions")
    parts.append(text_table([["id", "verdict", "observed", "statement"], *map(_prediction_row, study["predictions"])]))
    return "\n\n".join(parts)


def _gain_rows(cells: Sequence[CellRow]) -> list[list[str]]:
    sizes = sorted({cell["size"] for cell in cells})
    kinds = list(dict.fromkeys(cell["kind"] for cell in cells))
    rows = [["column", "mean", *(f"G {g}" for g in sizes), *kinds, "better/worse than grouptd"]]
    for name in cells[0]["offline"]:

        def mean(chosen: Sequence[CellRow], name: str = name) -> str:
            return f"{np.mean([c['offline'][name]['gain'] for c in chosen]):.3f}"

        pairs = [paired(c["offline"][name]["gain_by_task"], c["offline"]["grouptd"]["gain_by_task"]) for c in cells]
        better = sum(d > ERRORS * e for d, e in pairs)
        worse = sum(d < -ERRORS * e for d, e in pairs)
        rows.append(
            [
                name,
                mean(cells),
                *(mean([c for c in cells if c["size"] == g]) for g in sizes),
                *(mean([c for c in cells if c["kind"] == k]) for k in kinds),
                f"{better}/{worse} of {len(cells)}",
            ]
        )
    natural = [cell["natural_gain"] for cell in cells]
    rows.append(["natural gradient", f"{np.mean(natural):.3f}", *[""] * (len(sizes) + len(kinds) + 1)])
    return rows


METRICS = ("cos_mean", "cos_batch", "gain_small", "bias2", "variance", "agree", "agree_efficiency", "failed", "succeeded", "coverage")  # fmt: skip


def _metric_rows(cells: Sequence[CellRow]) -> list[list[str]]:
    rows = [["column", *METRICS]]
    for name in cells[0]["offline"]:
        row = [name]
        for metric in METRICS:
            known = [c["offline"][name][metric] for c in cells if c["offline"][name][metric] is not None]
            middle = np.median if metric == "variance" else np.mean
            row.append(f"{middle(known):.2f}" if known else "–")
        rows.append(row)
    return rows


def _area_rows(cells: Sequence[CellRow]) -> list[list[str]]:
    cells = [cell for cell in cells if cell["curves"]]
    sides = list(dict.fromkeys((cell["kind"], cell["size"]) for cell in cells))
    rows = [["column", *(f"{kind} G {size}" for kind, size in sides), "better/worse than gigpo"]]
    for name in cells[0]["curves"]:
        row = [name]
        for side in sides:
            chosen = [c for c in cells if (c["kind"], c["size"]) == side]
            # cells of another initial success are strata, not samples: only tasks within a cell vary
            means, errors = zip(*(_over_gigpo(c, name) for c in chosen), strict=True)
            error = np.sqrt(np.sum(np.square(errors))) / len(chosen)
            row.append(f"{100 * np.mean(means):+.2f} ± {100 * error:.2f}")
        pairs = [_over_gigpo(c, name) for c in cells]
        better, worse = sum(d > ERRORS * e for d, e in pairs), sum(d < -ERRORS * e for d, e in pairs)
        rows.append([*row, f"{better}/{worse} of {len(pairs)}"])
    return rows


def _over_gigpo(cell: CellRow, name: str) -> tuple[float, float]:
    areas = cell["curves"]
    return paired(areas[name]["area_by_task"], areas["gigpo"]["area_by_task"])


def _correlation_rows(cells: Sequence[CellRow]) -> list[list[str]]:
    found = correlations(cells)
    sides = list(next(iter(found.values())))
    rows = [["metric", *sides]]
    for metric, values in found.items():
        rows.append([metric, *(_number(values[side]) for side in sides)])
    return rows


def _number(x: float | None) -> str:
    return "–" if x is None else f"{x:.2f}"


def _prediction_row(prediction: Mapping[str, Any]) -> list[str]:
    verdict = {True: "hit", False: "MISS", None: "not run"}[prediction["hit"]]
    return [prediction["id"], verdict, prediction["observed"], prediction["statement"]]
