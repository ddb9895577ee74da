"""Fit the rules of ``creditflow audit`` to stored runs, evaluate them on suites left out, and write rules, cells and tables.

Run: ``python -m creditflow.train.choice.fit RESULTS.json.gz … --out DIR [--asset assets/schemes/choice.json]``. Writes DIR/cells.json
(features and areas of every cell) and DIR/choice.txt (tables); --asset writes what the package ships.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.reading.json_text import read_json
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.results import read_results
from creditflow.train.choice.advice import ShippedChoice
from creditflow.train.choice.cell import ChoiceCell
from creditflow.train.choice.evaluation import DEPTHS, Evaluation, evaluate, fitted_name
from creditflow.train.choice.features import MEANING
from creditflow.train.choice.runs import cells_of_run
from creditflow.train.commands.arguments.outputs import Output, add_input, add_output
from creditflow.train.commands.arguments.programs import run_program
from creditflow.train.text_table import text_table

__all__ = ["ALWAYS", "add_arguments", "choice_text", "main", "run", "shipped_from"]

ALWAYS: Final = ("grouptd_relative", "grouptd_relative_pooled", "grouptd_base", "graphgpo", "gigpo", "grpo")
WORST: Final = 3  # settings named in the verdict
REFERENCE: Final = ("grouptd_relative", "grouptd_relative_pooled", "graphgpo", "grpo")


def verdict(found: Evaluation) -> tuple[str, ...]:
    """What the evaluation says, in sentences."""
    depth, single = found.accepted(), found.best_single()
    where = f"{len(found.cells)} settings of {len(found.suites)} suites, each left out in turn"
    own = _text(found.mean(single))
    if depth:
        gain = _text(found.mean(fitted_name(depth), single))
        return (
            f"On {where}, these rules have {_text(found.mean(fitted_name(depth)))} points of regret; {single} has {own} "
            f"(difference {gain}).",
        )
    tried = "; ".join(f"{fitted_name(d)}: {_text(found.mean(fitted_name(d), single))}" for d in DEPTHS if d)
    rivals = "; ".join(
        f"always {name}: {_text(found.mean(f'always {name}', single))}"
        for name in REFERENCE
        if f"always {name}" in found.regret and f"always {name}" != single
    )
    return (
        f"No rule fitted to features of logs beat taking {single.removeprefix('always ')} every time, on {where}: regret minus "
        f"its, in points: {tried}.",
        f"It has {own} points of regret; minus its: {rivals}.",
        f"Its largest regrets: {_worst(found, single)}.",
    )


def _worst(found: Evaluation, policy: str) -> str:
    """The settings in which a policy has its largest regrets."""
    values = found.regret[policy]
    order = np.argsort(-values, kind="stable")[:WORST].tolist()
    return "; ".join(
        f"{found.cells[i].title} ({found.cells[i].suite}) {values[i]:.1f}, best {found.best_in(i)}" for i in order
    )


def shipped_from(found: Evaluation, sources: Mapping[str, Mapping[str, str]]) -> ShippedChoice:
    """The rules to ship, with the evidence for them."""
    single = found.best_single()
    settings = []
    for cell in found.cells:
        best = max(found.methods, key=cell.areas.__getitem__)
        regret = {name: float(f"{100 * (cell.areas[best] - cell.areas[name]):.2f}") for name in found.methods}
        settings.append(
            {
                "title": f"{cell.suite}, {cell.title}",
                "features": cell.features.to_json(),
                "best": best,
                "regret": regret,
            }
        )
    return ShippedChoice(
        rules=found.used(),
        regret={name: Estimate.of(found.mean(name)) for name in found.regret},
        difference={
            f"{name} minus {single}": Estimate.of(found.mean(name, single)) for name in found.regret if name != single
        },
        verdict=verdict(found),
        settings=tuple(settings),
        sources=sources,
    )


def choice_text(found: Evaluation) -> str:
    """All tables."""
    single = found.best_single()
    by_suite = [["policy", "regret", f"minus {single}", *found.suites]]
    for name, values in sorted(found.regret.items(), key=lambda one: found.mean(one[0]).mean):
        own = [values[[cell.suite == suite for cell in found.cells]].mean() for suite in found.suites]
        minus = "–" if name == single else _text(found.mean(name, single))
        by_suite.append([name, _text(found.mean(name)), minus, *(f"{x:.2f}" for x in own)])
    cells = [["suite", "setting", "best", f"regret of {single.removeprefix('always ')}", *MEANING]]
    for i, cell in enumerate(found.cells):
        numbers = [f"{value:.3g}" for value in cell.features.to_json().values()]
        cells.append([cell.suite, cell.title, found.best_in(i), f"{found.regret[single][i]:.2f}", *numbers])
    parts = [
        "Regret in points of success: the best of the schemes minus the chosen one, area under the learning curve. Fitted policies were "
        "fitted without the suite on which they are evaluated. Intervals: 95 %, settings as samples, suites as strata of equal weight.",
        text_table(by_suite),
        "Rules fitted to all suites:\n"
        + "\n".join(f"  {fitted_name(d)}: {rules}" for d, rules in found.fitted.items()),
        f"Schemes to choose from: {', '.join(found.methods)}.",
        f"Used: {found.used()}.\n" + "\n".join(verdict(found)),
        "Settings",
        text_table(cells),
    ]
    return "\n\n".join(parts) + "\n"


def _text(mean: Any) -> str:
    return Estimate.of(mean).text(2)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the program's arguments."""
    add_input(parser, "results", nargs="*", help="results.json of runs, compressed or not")
    add_input(
        parser, "--cells", metavar="FILE", help="cells.json of an earlier call, instead of sampling its logs again"
    )
    add_output(parser, "--out", Output(kind="folder"), required=True, metavar="DIR", help="folder of cells and tables")
    add_output(parser, "--asset", metavar="FILE", help="what the package ships")


def run(args: argparse.Namespace) -> int:
    """Fit, evaluate and write."""
    stored: dict[str, Any] = {"sources": {}, "cells": []}
    if args.cells:
        stored = read_json(Path(args.cells))
    for path in map(Path, args.results):
        document, name = read_results(path), path.name.partition(".")[0]
        origin = document["provenance"]
        stored["sources"][name] = {
            "file": path.as_posix(), "command": origin["command"], "commit": origin["commit"],
        }  # fmt: skip
        stored["cells"] += [cell.to_json() for cell in cells_of_run(document, suite=name)]
    found = evaluate([ChoiceCell.from_json(row) for row in stored["cells"]], ALWAYS)
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    _write(out / "cells.json", json.dumps(stored, indent=1, ensure_ascii=False) + "\n")
    _write(out / "choice.txt", choice_text(found))
    if args.asset:
        shipped = shipped_from(found, stored["sources"]).to_json()
        _write(Path(args.asset), json.dumps(shipped, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    print(choice_text(found))
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit code."""
    return run_program("creditflow.train.choice.fit", arguments)


def _write(path: Path, text: str) -> None:
    with atomic_writer(path, encoding="utf-8") as stream:
        stream.write(text)


if __name__ == "__main__":
    sys.exit(main())
