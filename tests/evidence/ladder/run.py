"""Does the order of credit schemes depend on the size of the language model? A ladder of sizes on the same tasks.

  python tests/evidence/ladder/run.py --out tests/evidence/ladder/results.jsonl [--sizes 0.1,0.4,1.6,6]
      [--families pits,sokoban] [--methods …] [--minutes M] [--seeds N]
  python tests/evidence/ladder/run.py --out tests/evidence/ladder/results.jsonl --table

Every job is a size, a family, a seed and a method: it warms the model up until 25 % of the evaluated training tasks succeed, and
trains it. Its line is appended to the file, and a later call does the jobs that are missing.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.language_model.suite.run import learn, warm_up
from creditflow.train.bench.language_model.suite.work import (
    LM_PRESETS,
    LanguageModelWork,
    LearningWork,
    NetworkSize,
    WarmUpWork,
)
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.statistics import crossed_mean

__all__ = ["METHODS", "SIZES", "areas", "jobs", "table", "trends", "work_of"]

# by size in millions of parameters; all but the first have more layers and wider ones
SIZES: Final[Mapping[str, NetworkSize]] = {
    "0.1": NetworkSize(hidden=64, layers=2, heads=4, kv_heads=2, intermediate=128, init=0.1),
    "0.4": NetworkSize(hidden=112, layers=3, heads=4, kv_heads=2, intermediate=256, init=0.06),
    "1.6": NetworkSize(hidden=192, layers=4, heads=6, kv_heads=3, intermediate=512, init=0.05),
    "6": NetworkSize(hidden=320, layers=6, heads=5, kv_heads=5, intermediate=832, init=0.04),
}
RATES: Final = {
    "0.1": 5e-4,
    "0.4": 3.5e-4,
    "1.6": 2.5e-4,
    "6": 1.75e-4,
}  # as 1 over the root of the width's growth, squared
PARAMETERS: Final = {"0.1": 0.10, "0.4": 0.42, "1.6": 1.7, "6": 7.4}  # millions, as counted
METHODS: Final = ("grpo", "grouptd", "graphgpo", "g2po", "gigpo", "stateless", "oracle_adv")
BASELINE: Final = METHODS[0]
FAMILIES: Final = ("pits", "sokoban")
UNTIL: Final = 0.25


def work_of(size: str, seed: int) -> LanguageModelWork:
    """The sizes of a run; every seed has tasks of its own."""
    warm_up_work = WarmUpWork(500, 0.5, 300, lr=3e-3 if size == "0.1" else 1.5e-3, until=UNTIL)
    return replace(
        LM_PRESETS["lm"],
        pool=64,
        evaluated=32,
        warm_up=dict.fromkeys(FAMILIES, warm_up_work),
        learning=LearningWork(iterations=40, tasks=8, size=4, lr=RATES[size], points=4),
        size=SIZES[size],
        task_seed=seed,
    )


def jobs(
    sizes: Sequence[str], families: Sequence[str], methods: Sequence[str], seeds: Sequence[int]
) -> list[tuple[str, str, int, str]]:
    """Size, family, seed and method of every job: a seed is finished for all sizes before the next one begins."""
    return [(size, family, seed, method) for seed, family, size, method in product(seeds, families, sizes, methods)]


def areas(rows: Sequence[Mapping[str, Any]], family: str, size: str, method: str) -> dict[int, float]:
    """Mean held-out success over the measured points after the start, in percent, by seed."""
    of_method = {
        row["job"][2]: 100.0 * float(np.mean(row["held_out"][1:]))
        for row in rows
        if row["job"] == [size, family, row["job"][2], method]
    }
    return dict(sorted(of_method.items()))


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Every method's area minus grpo's, paired by seed, with 95 % intervals by Student's t over seeds."""
    lines = [
        f"| family | million parameters | seeds | grpo, % | {' | '.join(METHODS[1:])} | grouptd − graphgpo |",
        f"| --- | --- | --- | --- | {'--- | ' * len(METHODS[1:])}--- |",
    ]
    for family, size in product(FAMILIES, SIZES):
        base = areas(rows, family, size, BASELINE)
        if not base:
            continue
        curves = {method: np.array(list(areas(rows, family, size, method).values())) for method in METHODS}
        cells = [_interval(curves[method] - curves[BASELINE]) for method in METHODS[1:]]
        cells.append(_interval(curves["grouptd"] - curves["graphgpo"]))
        lines.append(f"| {family} | {size} | {len(base)} | {curves[BASELINE].mean():.1f} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def trends(rows: Sequence[Mapping[str, Any]]) -> str:
    """How much a method's lead over grpo changes per tenfold size: slopes of straight lines over the sizes, one per seed.

    All sizes have the same tasks under a seed, so a seed's slope is paired. Mean and 95 % interval are over the seeds that have
    run at every size.
    """
    ran = [size for size in SIZES if areas(rows, FAMILIES[0], size, BASELINE)]
    tenfold = np.log10([PARAMETERS[size] for size in ran])
    lines = [f"| family | {' | '.join(METHODS[1:])} |", f"|{' --- |' * len(METHODS)}"]
    for family in FAMILIES:
        cells = []
        for method in METHODS[1:]:
            pairs = [(areas(rows, family, size, method), areas(rows, family, size, BASELINE)) for size in ran]
            seeds = sorted(set.intersection(*(of_method.keys() & of_base.keys() for of_method, of_base in pairs)))
            leads = np.array([[of_method[seed] - of_base[seed] for seed in seeds] for of_method, of_base in pairs])
            cells.append(_interval(np.polyfit(tenfold, leads, 1)[0]))
        lines.append(f"| {family} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _interval(values: NDArray[np.float64]) -> str:
    return Estimate.of(crossed_mean(values[:, None])).text(1, "+")


def main() -> int:
    """Run the missing jobs, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="file of the results, a line a job")
    parser.add_argument("--sizes", default=",".join(SIZES), help="millions of parameters, separated by commas")
    parser.add_argument("--families", default=",".join(FAMILIES), help="separated by commas")
    parser.add_argument("--methods", default=",".join(METHODS), help="separated by commas")
    parser.add_argument("--minutes", type=float, default=1e9, help="end after the job in which this time has passed")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=400, help="first seed, of tasks and models")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--table", action="store_true", help="print the table of what has run")
    arguments = parser.parse_args()
    begin, starts = time.monotonic(), dict[tuple[str, str, int], dict[str, Any]]()
    stored = arguments.out.read_text("utf-8").splitlines() if arguments.out.exists() else []
    rows = [json.loads(line) for line in stored]
    if arguments.table:
        print(f"{table(rows)}\n{trends(rows)}", end="")
        return 0
    done = {tuple(row["job"]) for row in rows}
    sizes, families, methods = (text.split(",") for text in (arguments.sizes, arguments.families, arguments.methods))
    for job in jobs(sizes, families, methods, range(arguments.seed, arguments.seed + arguments.seeds)):
        if job in done:
            continue
        if time.monotonic() - begin > 60.0 * arguments.minutes:
            break
        size, family, seed, method = job
        started, work = time.process_time(), work_of(size, seed)
        if job[:3] not in starts:
            starts = {job[:3]: warm_up(family, seed, work, arguments.device)}
        start = starts[job[:3]]
        curve = learn(family, seed, method, work, arguments.device, start["parameters"])
        row: dict[str, Any] = {"job": job, "seconds": round(time.process_time() - started, 1)}
        for name in ("train", "held_out"):
            means = [float(np.mean(point[name]["sampled"])) for point in curve]
            row[name] = [round(mean, 5) for mean in means]
        with arguments.out.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(row, separators=(",", ":")) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
