"""Does the order of credit schemes depend on the size of the language model, or on what it reads and writes?

  python tests/evidence/ladder/run.py --out tests/evidence/ladder/results.jsonl [--sizes 0.1,0.4,1.6,6,20,60]
      [--families pits,sokoban] [--methods …] [--seeds N] [--rate FACTOR] [--minutes M] [--workers N] [--device cuda]
  python tests/evidence/ladder/run.py --out tests/evidence/ladder/results.jsonl --sizes 0.1 --settings all [--seeds N] …

Every job is a size, a family, a seed and a method, in a setting: it trains the model that was warmed up until 25 % of the evaluated training
tasks succeed. Its line is appended to the file, and a later call does the jobs that are missing.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from evidence.language_models.run import learn, warm_up
from evidence.language_models.setting import FILE
from evidence.language_models.work import WORK, LanguageModelWork, LearningWork, NetworkSize, TurnForm, WarmUpWork

from creditflow.envs.files.appended import read_appended
from creditflow.train.rollout.workers.pool import open_job_pool

__all__ = ["METHODS", "SETTINGS", "SIZES", "UNFINISHED", "work_of"]

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
METHODS: Final = ("grpo", "grouptd", "graphgpo", "g2po", "gigpo", "blend", "stateless", "oracle_adv")
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
UNFINISHED: Final = 3  # exit code when the time did not suffice


def work_of(size: str, seed: int, rate: float = 1.0, setting: str = STANDARD) -> LanguageModelWork:
    """The sizes of a run, which learns at ``rate`` times the size's learning rate; every seed has tasks of its own."""
    of_suite, of_learning = SETTINGS[setting]
    warm_up_work = WarmUpWork(500, 0.5, 300, lr=WARM_UP_RATES[size], until=UNTIL)
    return replace(
        WORK,
        pool=64,
        evaluated=32,
        warm_up=dict.fromkeys(FAMILIES, warm_up_work),
        learning=LearningWork(iterations=40, tasks=8, size=4, lr=rate * RATES[size], points=4, **of_learning),
        size=SIZES[size],
        task_seed=seed,
        **of_suite,
    )


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
    """Run the missing jobs; returns the exit code."""
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
    arguments = parser.parse_args()
    deadline = time.monotonic() + 60.0 * arguments.minutes
    rows = list[dict[str, Any]]()
    if arguments.out.exists():
        rows = [row for _, row in read_appended(arguments.out, '{"job":[', "results of the ladder")]
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
