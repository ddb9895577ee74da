"""Does the order of two schemes depend on choices that should not matter? Writes ``results.json`` into a folder, or prints its table.

  python tests/evidence/settings/protocol.py --out DIR [--seed N] [--workers N] [--resume]
  python tests/evidence/settings/protocol.py --show tests/evidence/settings/protocol_first.json.gz

Loss average, centring, scale and optimiser (steps of equal KL divergence, Adam at four rates) are crossed on two kinds of task of the
suite ``shared``. The results are those of ``creditflow bench --preset protocol --envs shared`` with the table "design" of the crossed settings.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from evidence.settings.cells import Centring, Scale, StudyCell
from evidence.settings.design import COLUMNS, Design, design_of, pairs_of

from creditflow.train.bench.document import RunOptions, measure_once, read_results
from creditflow.train.bench.jobs import Job, JobRunner
from creditflow.train.bench.presets import PRESETS, SharedWork
from creditflow.train.bench.shared.cells import Aggregation, run_unit
from creditflow.train.bench.shared.run import run_shared
from creditflow.train.text_table import text_table

__all__ = ["KINDS", "RATES", "crossed_cells", "crossed_rows", "design_table", "order_rows"]

PRESET: Final = PRESETS["protocol"]
KINDS: Final = ("pits", "sokoban")
RATES: Final = (0.0, 0.01, 0.03, 0.1, 0.3)  # of Adam; 0: steps of a given KL divergence
CONTROLS: Final = ("stateless", "oracle_adv")  # those that could be rivals


def crossed_cells() -> list[StudyCell]:
    """The cells of the crossed design: every level of every factor with all levels of the others."""
    return [
        StudyCell(kind, aggregation=aggregation, centring=centring, scale=scale, rate=rate)
        for kind, aggregation, centring, scale, rate in product(
            KINDS, get_args(Aggregation), get_args(Centring), get_args(Scale), RATES
        )
    ]


def factors(cell: StudyCell) -> dict[str, str]:
    """The level of every factor of a cell."""
    return {
        "tasks": cell.kind,
        "loss average": cell.aggregation.replace("_", " "),
        "centring": "per group" if cell.centring == "group" else "none",
        "scale": "equal RMS per group" if cell.scale == "group" else "the credit's own",
        "optimiser": f"Adam {cell.rate:g}" if cell.rate else "KL steps",
    }


def crossed_rows(cell: StudyCell, parts: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    """The learning curves of a cell as rows of the table; without methods that are missing under a layout seed."""
    rows = []
    for name in parts[0]["curves"]:
        if not all(name in of_unit["curves"] for of_unit in parts):
            continue
        for unit, of_unit in enumerate(parts):
            train, held_out = (np.array(side) for side in of_unit["curves"][name])
            values = {
                "area": train[1:].mean(),
                "final": train[-1],
                "held_out_area": held_out[1:].mean(),
                "held_out_final": held_out[-1],
            }
            rows += [[*factors(cell).values(), name, unit, key, float(f"{x:.5g}")] for key, x in values.items()]
    return rows


def design_table(names: Sequence[str], work: SharedWork, seed: int, runner: JobRunner) -> dict[str, Any]:
    """Run the crossed settings; the table "design". A kind of task without an initial policy is left out.

    Args:
        names: names of the methods.
        work: sizes.
        seed: seed of tasks, rollouts and shuffling.
        runner: runs the jobs.
    """
    jobs = {
        cell: [
            Job(f"shared/crossed/{cell}/{unit}", run_unit, (cell, work, (), names, seed, unit))
            for unit in range(work.units)
        ]
        for cell in crossed_cells()
    }
    results = runner.run([job for of_cell in jobs.values() for job in of_cell], "crossed")
    parts = {cell: [results[job.name] for job in of_cell] for cell, of_cell in jobs.items()}
    impossible = {cell.kind for cell, of_cell in parts.items() if any("impossible" in of_unit for of_unit in of_cell)}
    rows = [
        row for cell, of_cell in parts.items() if cell.kind not in impossible for row in crossed_rows(cell, of_cell)
    ]
    return {"columns": [*factors(next(iter(parts))), *COLUMNS], "rows": rows}


def order_rows(design: Design) -> list[list[str]]:
    """Of every two methods in how many settings the order holds, and on which factor its sign depends; the header first."""
    rows = [["pair", "difference [95 % CI]", "holds in", "turns in", "the sign depends on"]]
    for pair in pairs_of(design, [name for name in design.methods if "oracle" not in name]):
        named = []
        for name in pair.factors:
            levels = [f"{level} {value.times(100).short(1, '+')}" for level, value in pair.levels[name].items()]
            named.append(f"{name} ({', '.join(levels)})")
        difference, of_settings = pair.difference.times(100).text(1, "+"), f"of {pair.settings}"
        rows.append(
            [f"{pair.better} − {pair.worse}", difference, f"{pair.holds} {of_settings}",
             f"{pair.turns} {of_settings}", "; ".join(named) or "no factor"]
        )  # fmt: skip
    return rows


def main() -> int:
    """Run the study, or print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="folder")
    parser.add_argument("--show", type=Path, help="results of a run, whose table is printed")
    parser.add_argument("--seed", type=int, default=71, help="of tasks and rollouts")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--resume", action="store_true", help="go on with an interrupted run")
    arguments = parser.parse_args()
    if arguments.show:
        for suite in read_results(arguments.show)["suites"]:
            if (design := design_of(suite)) is not None:
                print(text_table(order_rows(design)))
        return 0
    if not arguments.out:
        parser.error("give --out DIR or --show FILE")

    def measure(runner: JobRunner) -> dict[str, Any]:
        suite = run_shared(PRESET.schemes, PRESET.shared, arguments.seed, runner)
        names = [*suite["schemes"], *(name for name in CONTROLS if name in suite["controls"])]
        return {"suites": [suite | {"design": design_table(names, PRESET.shared, arguments.seed, runner)}]}

    arguments.out.mkdir(parents=True, exist_ok=True)
    options = RunOptions(arguments.out, arguments.workers, tuple(sys.argv), arguments.resume)
    identity = {"preset": "protocol", "amounts": asdict(PRESET), "rates": RATES, "seed": arguments.seed}
    measure_once(measure, options, identity)
    return 0


if __name__ == "__main__":
    sys.exit(main())
