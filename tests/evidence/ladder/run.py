"""Does the order of credit schemes depend on the size of the language model, or on what it reads and writes?

  python tests/evidence/ladder/run.py --out tests/evidence/ladder/results.jsonl [--sizes 0.1,0.4,1.6,6,20,60]
      [--families pits,sokoban] [--methods …] [--seeds N] [--rate FACTOR] [--minutes M] [--workers N] [--device cuda]
  python tests/evidence/ladder/run.py --out tests/evidence/ladder/results.jsonl --sizes 0.1 --settings all [--seeds N] …
  python tests/evidence/ladder/run.py --out tests/evidence/ladder/results.jsonl --table

Every job is a size, a family, a seed and a method, in a setting: it trains the model that was warmed up until 25 % of the evaluated training
tasks succeed. Its line is appended to the file, and a later call does the jobs that are missing.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch

from creditflow.envs.files.appended import read_appended
from creditflow.train.bench.jobs import open_job_pool
from creditflow.train.bench.language_model.suite.run import learn, warm_up
from creditflow.train.bench.language_model.suite.setting import FILE
from creditflow.train.bench.language_model.suite.work import (
    LM_PRESETS,
    LanguageModelWork,
    LearningWork,
    NetworkSize,
    TurnForm,
    WarmUpWork,
)
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.statistics import crossed_mean

__all__ = [
    "METHODS",
    "SETTINGS",
    "SIZES",
    "UNFINISHED",
    "areas",
    "by_rate",
    "by_setting",
    "pooled",
    "table",
    "trends",
    "work_of",
]

# by size in millions of parameters; all but the first have more layers and wider ones
SIZES: Final[Mapping[str, NetworkSize]] = {
    "0.1": NetworkSize(hidden=64, layers=2, heads=4, kv_heads=2, intermediate=128, init=0.1),
    "0.4": NetworkSize(hidden=112, layers=3, heads=4, kv_heads=2, intermediate=256, init=0.06),
    "1.6": NetworkSize(hidden=192, layers=4, heads=6, kv_heads=3, intermediate=512, init=0.05),
    "6": NetworkSize(hidden=320, layers=6, heads=5, kv_heads=5, intermediate=832, init=0.04),
    "20": NetworkSize(hidden=448, layers=8, heads=7, kv_heads=7, intermediate=1216, init=0.03),
    "60": NetworkSize(hidden=704, layers=10, heads=11, kv_heads=11, intermediate=1856, init=0.025),
}
# about the width to the power -0.65
RATES: Final = {"0.1": 5e-4, "0.4": 3.5e-4, "1.6": 2.5e-4, "6": 1.75e-4, "20": 1.4e-4, "60": 1.05e-4}
WARM_UP_RATES: Final = {"0.1": 3e-3, "0.4": 1.5e-3, "1.6": 1.5e-3, "6": 1.5e-3, "20": 7e-4, "60": 4e-4}
PARAMETERS: Final = {"0.1": 0.10, "0.4": 0.42, "1.6": 1.7, "6": 7.4, "20": 20.0, "60": 60.0}  # millions, as counted
METHODS: Final = ("grpo", "grouptd", "graphgpo", "g2po", "gigpo", "blend", "stateless", "oracle_adv")
BASELINE: Final = METHODS[0]
CONTROL: Final = "stateless"
LARGE: Final = ("6", "20", "60")
FAMILIES: Final = ("pits", "sokoban")
STANDARD: Final = "standard"
# by name, what differs from one-token actions in the present state, with exact keys and outcomes: in the suite, and in learning
SETTINGS: Final[Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]]] = {
    STANDARD: ({}, {}),
    "letters": ({"form": TurnForm("letters")}, {}),
    "plan": ({"form": TurnForm("plan")}, {}),
    "history": ({"form": TurnForm(window=1)}, {}),
    "merged keys": ({}, {"keys": "merged"}),
    "fresh keys": ({}, {"keys": "fresh"}),
    "wrong outcomes": ({}, {"wrong": 0.1}),
}
UNTIL: Final = 0.25
LEAST_SIZES: Final = 4  # of a line over sizes
UNFINISHED: Final = 3  # exit code when the time did not suffice


def work_of(size: str, seed: int, rate: float = 1.0, setting: str = STANDARD) -> LanguageModelWork:
    """The sizes of a run, which learns at ``rate`` times the size's learning rate; every seed has tasks of its own."""
    of_suite, of_learning = SETTINGS[setting]
    warm_up_work = WarmUpWork(500, 0.5, 300, lr=WARM_UP_RATES[size], until=UNTIL)
    return replace(
        LM_PRESETS["lm"],
        pool=64,
        evaluated=32,
        warm_up=dict.fromkeys(FAMILIES, warm_up_work),
        learning=LearningWork(iterations=40, tasks=8, size=4, lr=rate * RATES[size], points=4, **of_learning),
        size=SIZES[size],
        task_seed=seed,
        **of_suite,
    )


def areas(
    rows: Sequence[Mapping[str, Any]], family: str, size: str, method: str, setting: str = STANDARD, rate: float = 1.0
) -> dict[int, float]:
    """Mean held-out success over the measured points after the start, in percent, by seed, at ``rate`` times the size's own."""
    of_method = {
        row["job"][2]: 100.0 * float(np.mean(row["held_out"][1:]))
        for row in rows
        if row["job"] == [size, family, row["job"][2], method]
        and row.get("rate", 1.0) == rate
        and row.get("setting", STANDARD) == setting
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
        cells = [_interval(_leads(rows, family, size, method)) for method in METHODS[1:]]
        cells.append(_interval(_leads(rows, family, size, "grouptd", "graphgpo")))
        lines.append(f"| {family} | {size} | {len(base)} | {np.mean(list(base.values())):.1f} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def trends(rows: Sequence[Mapping[str, Any]]) -> str:
    """How much a method's lead over grpo changes per tenfold size: slopes of straight lines over the sizes, one per seed.

    All sizes have the same tasks under a seed, so a seed's slope is paired. A line has the sizes at which its seed ran, and at least
    four of them. Mean and 95 % interval are over seeds.
    """
    lines = [f"| family | {' | '.join(METHODS[1:])} |", f"|{' --- |' * len(METHODS)}"]
    for family in FAMILIES:
        cells = []
        for method in METHODS[1:]:
            by_size = {size: _leads(rows, family, size, method) for size in SIZES}
            slopes = dict[int, float]()
            for seed in sorted(set().union(*by_size.values())):
                ran = [size for size, leads in by_size.items() if seed in leads]
                if len(ran) >= LEAST_SIZES:
                    tenfold = np.log10([PARAMETERS[size] for size in ran])
                    slopes[seed] = float(np.polyfit(tenfold, [by_size[size][seed] for size in ran], 1)[0])
            cells.append(_interval(slopes))
        lines.append(f"| {family} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def pooled(rows: Sequence[Mapping[str, Any]]) -> str:
    """Every method's area minus grpo's, and minus that of the control without states, over families and sizes.

    A seed's number is the mean over the families and sizes at which it ran. Mean and 95 % interval are over seeds.
    """
    columns = [(other, sizes) for other in (BASELINE, CONTROL) for sizes in (tuple(SIZES), LARGE)]
    heads = [f"− {other}, {'all sizes' if len(sizes) > len(LARGE) else 'from 7.4 M on'}" for other, sizes in columns]
    lines = [f"| method | {' | '.join(heads)} |", f"|{' --- |' * (1 + len(heads))}"]
    for method in METHODS[1:]:
        cells = []
        for other, sizes in columns:
            by_seed: dict[int, list[float]] = defaultdict(list)
            for family, size in product(FAMILIES, sizes):
                for seed, lead in _leads(rows, family, size, method, other).items():
                    by_seed[seed].append(lead)
            means = {seed: float(np.mean(leads)) for seed, leads in by_seed.items()}
            cells.append("–" if method == other else _interval(means))
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def by_setting(rows: Sequence[Mapping[str, Any]], other: str = BASELINE) -> str:
    """Every method's area minus another's at the smallest size, by setting: the mean over families, 95 % over seeds."""
    methods, size = [method for method in METHODS if method != other], next(iter(SIZES))
    lines = [f"| setting | seeds | {other}, % | {' | '.join(methods)} |", f"|{' --- |' * (3 + len(methods))}"]
    for setting in SETTINGS:
        base, cells = _over_families(rows, size, other, setting), []
        for method in methods:
            area = _over_families(rows, size, method, setting)
            cells.append(_interval({seed: area[seed] - base[seed] for seed in area if seed in base}))
        lines.append(f"| {setting} | {len(base)} | {np.mean(list(base.values())):.1f} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def by_rate(rows: Sequence[Mapping[str, Any]]) -> str:
    """The leads of grouptd and of the control over grpo at other learning rates, where they have run: 95 % over seeds."""
    cells = sorted({(row["rate"], row["job"][0]) for row in rows if "rate" in row})
    rates = sorted({1.0, *(rate for rate, _ in cells)})
    heads = " | ".join(f"rate × {rate:.3g}" for rate in rates)
    lines = [f"| family | million parameters | method | {heads} |", f"|{' --- |' * (3 + len(rates))}"]
    for family, size in product(FAMILIES, dict.fromkeys(size for _, size in cells)):
        base = {rate: areas(rows, family, size, BASELINE, rate=rate) for rate in rates}
        start = [f"{np.mean(list(of_rate.values())):.1f}" for of_rate in base.values()]
        lines.append(f"| {family} | {size} | {BASELINE}, % | {' | '.join(start)} |")
        for method in ("grouptd", CONTROL):
            leads = []
            for rate in rates:
                of_method = areas(rows, family, size, method, rate=rate)
                leads.append({seed: area - base[rate][seed] for seed, area in of_method.items() if seed in base[rate]})
            lines.append(f"| {family} | {size} | {method} − {BASELINE} | {' | '.join(map(_interval, leads))} |")
    return "\n".join(lines) + "\n"


def _over_families(rows: Sequence[Mapping[str, Any]], size: str, method: str, setting: str) -> dict[int, float]:
    """A method's mean area over families, by seed that ran on all of them."""
    by_family = [areas(rows, family, size, method, setting) for family in FAMILIES]
    seeds = set.intersection(*map(set, by_family))
    return {seed: float(np.mean([of_family[seed] for of_family in by_family])) for seed in sorted(seeds)}


def _leads(
    rows: Sequence[Mapping[str, Any]], family: str, size: str, method: str, other: str = BASELINE
) -> dict[int, float]:
    """A method's area minus another's, by seed."""
    first, second = (areas(rows, family, size, name) for name in (method, other))
    return {seed: area - second[seed] for seed, area in first.items() if seed in second}


def _interval(by_seed: Mapping[int, float]) -> str:
    """Mean and 95 % interval over seeds."""
    values = np.array(list(by_seed.values()))
    return Estimate.of(crossed_mean(values[:, None])).text(1, "+") if len(values) > 1 else "not run"


class Job(NamedTuple):
    """A model is warmed up for each setting, size, family and seed (no method), and trained from there with each method."""

    setting: str
    size: str
    family: str
    seed: int
    method: str = ""

    @property
    def start(self) -> Job:
        """The warm-up of this job."""
        return self._replace(method="")


def measure(
    missing: Sequence[Job], rate: float, device: str, workers: int, deadline: float
) -> Iterator[dict[str, Any]]:
    """Yield the row of every job when it is done.

    Args:
        missing: the jobs, in the order in which they are started.
        rate: factor of the learning rates.
        device: device of the models.
        workers: number of processes, which share the device.
        deadline: ``time.monotonic()`` after which nothing is started or waited for.
    """
    starts = list(dict.fromkeys(job.start for job in missing))
    ready, running = list[Job](), dict[Future[Any], Job]()
    with tempfile.TemporaryDirectory() as folder, open_job_pool(workers) as pool:
        while starts or ready or running:
            while (starts or ready) and len(running) < workers:
                job = ready.pop(0) if ready else starts.pop(0)
                file = str(Path(folder) / f"{'-'.join(map(str, job.start))}{FILE}")
                running[pool.submit(_do, job, rate, device, file)] = job
            done, _ = wait(running, max(deadline - time.monotonic(), 0.0), FIRST_COMPLETED)
            for future in done:
                job = running.pop(future)
                row = future.result()
                if row is None:
                    ready += [other for other in missing if other.start == job]
                else:
                    yield row
            if time.monotonic() > deadline:
                pool.end()
                return


def _do(job: Job, rate: float, device: str, file: str) -> dict[str, Any] | None:
    """Warm a model up and write it to ``file``, or train it from there: the row."""
    started = time.process_time()
    work = work_of(job.size, job.seed, rate, job.setting)
    if not job.method:
        warm_up(job.family, job.seed, work, device, file)
        return None
    curve = learn(job.family, job.seed, job.method, work, device, file)
    row: dict[str, Any] = {"job": job[1:], "seconds": round(time.process_time() - started, 1)}
    if device != "cpu":
        row["device"] = torch.cuda.get_device_name(device) if device.startswith("cuda") else device
    if rate != 1.0:
        row["rate"] = rate
    if job.setting != STANDARD:
        row["setting"] = job.setting
    for name in ("train", "held_out"):
        row[name] = [round(float(np.mean(point[name]["sampled"])), 5) for point in curve]
    return row


def names_of(known: Collection[str]) -> Callable[[str], list[str]]:
    """Reader of an argument with some of these names, separated by commas, or ``all``."""

    def read(text: str) -> list[str]:
        names = [*known] if text == "all" else text.split(",")
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"expected names of {', '.join(known)}, got {name!r}")
        return names

    return read


def main() -> int:
    """Run the missing jobs, or print the tables; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="file of the results, a line a job")
    parser.add_argument("--sizes", type=names_of(SIZES), default=[*SIZES], help="in millions of parameters")
    parser.add_argument("--settings", type=names_of(SETTINGS), default=[STANDARD], help="separated by commas; or all")
    parser.add_argument("--families", type=names_of(FAMILIES), default=[*FAMILIES], help="separated by commas")
    parser.add_argument("--methods", type=names_of(METHODS), default=[*METHODS], help="separated by commas")
    parser.add_argument("--minutes", type=float, default=1e5, help="end after this time; what was not finished is lost")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=400, help="first seed, of tasks and models")
    parser.add_argument("--rate", type=float, default=1.0, help="factor of the learning rates (default 1)")
    parser.add_argument("--workers", type=int, default=1, help="processes, which share the device (default 1)")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--table", action="store_true", help="print the tables of what has run")
    arguments = parser.parse_args()
    deadline = time.monotonic() + 60.0 * arguments.minutes
    rows = list[dict[str, Any]]()
    if arguments.out.exists():
        rows = [row for _, row in read_appended(arguments.out, '{"job":[', "results of the ladder")]
    if arguments.table:
        tables = [table(rows), pooled(rows), trends(rows), by_rate(rows), by_setting(rows), by_setting(rows, CONTROL)]
        print("\n".join(tables), end="")
        return 0
    done = {(row.get("setting", STANDARD), *row["job"]) for row in rows if row.get("rate", 1.0) == arguments.rate}
    seeds = range(arguments.seed, arguments.seed + arguments.seeds)  # one is finished everywhere before the next begins
    wanted = [
        Job(setting, size, family, seed, method)
        for seed, family, size, setting, method in product(
            seeds, arguments.families, arguments.sizes, arguments.settings, arguments.methods
        )
    ]
    missing = [job for job in wanted if job not in done]
    left = len(missing)
    for row in measure(missing, arguments.rate, arguments.device, arguments.workers, deadline):
        with arguments.out.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(row, separators=(",", ":")) + "\n")
        left -= 1
    return UNFINISHED if left else 0


if __name__ == "__main__":
    sys.exit(main())
