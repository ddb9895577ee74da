"""Paired differences between two methods of a run, with confidence intervals that suit a handful of tasks.

Run: ``python -m creditflow.train.bench.report.differences RESULTS.json[.gz] SUITE KINDS A B [--value area|gain] [--size G]``, with a suite
that has exact values, and KINDS such as ``alias`` or ``open,pits``. A difference is significant if its interval excludes 0.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from creditflow.envs.errors import unknown_name_error
from creditflow.train.bench.report.statistics import CellMeans, Estimate
from creditflow.train.bench.results import read_results

__all__ = ["difference", "main"]

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


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one difference.

    Raises:
        ConfigError: the suite, a kind or a method is unknown; the message suggests the nearest name.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("results", type=Path, help="results.json of a run, compressed or not")
    parser.add_argument("suite", help="suite with exact values")
    parser.add_argument("kinds", help="kinds of task, separated by commas")
    parser.add_argument("a", help="method")
    parser.add_argument("b", help="method that is subtracted")
    parser.add_argument(
        "--value", choices=sorted(TABLES), default="area", help="area, or gain of one step (default area)"
    )
    parser.add_argument("--size", type=int, default=0, help="group size (default all)")
    args = parser.parse_args(arguments)
    suites = {suite["name"]: suite["cells"] for suite in read_results(args.results)["suites"] if "cells" in suite}
    if args.suite not in suites:
        raise unknown_name_error("suite with exact values", args.suite, suites)
    kinds, table = args.kinds.split(","), TABLES[args.value][0]
    known_kinds = {c["kind"] for c in suites[args.suite]}
    for kind in kinds:
        if kind not in known_kinds:
            raise unknown_name_error("kind of task", kind, known_kinds)
    cells = [c for c in suites[args.suite] if c["kind"] in kinds and args.size in (0, c["size"])]
    for name in (args.a, args.b):
        for cell in cells:
            if cell[table] and name not in cell[table]:
                raise unknown_name_error("method", name, cell[table])
    found = difference(cells, args.a, args.b, value=args.value)
    print(f"{args.a} - {args.b}, {args.value}, {args.suite} {args.kinds}: {found.text(3, '+')}")


if __name__ == "__main__":
    main()
