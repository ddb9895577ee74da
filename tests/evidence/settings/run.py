"""Which credit scheme is best in which setting? One factor at a time around two base settings, and a random fraction of all settings.

  python tests/evidence/settings/run.py --out tests/evidence/settings/results.jsonl [--minutes M] [--seeds N]

Every job is one setting under one layout seed, with all methods; its line is appended to the file, and a later call does the jobs
that are missing. ``--minutes`` ends after the job in which that time has passed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from evidence.settings.cells import StateKeys, StudyCell
from evidence.settings.estimators import ESTIMATORS, register_estimators

from creditflow.envs.files.appended import read_appended
from creditflow.train.bench.presets import SharedWork
from creditflow.train.bench.shared.cells import run_unit
from creditflow.wrappers import credit

__all__ = ["FACTORS", "Setting", "cells_of", "fraction", "half", "labels", "methods", "one_at_a_time", "settings"]

Floats = NDArray[np.float64]
WORK: Final = SharedWork(units=3, train=32, held_out=16, groups=0, updates=8, every=2, kinds=("pits",), kl=0.003)
# levels of every factor; the first one is that of the base settings, of which there is one for each of the first two families
FACTORS: Final[Mapping[str, tuple[str, ...]]] = {
    "tasks": ("pits", "sokoban", "key"),
    "keys": ("Markov", "merged", "hidden", "fresh"),
    "outcome": ("0/1", "graded", "5 % wrong", "10 % wrong", "20 % wrong"),
    "transitions": ("deterministic", "20 % slips"),
    "turns": ("20 to 30", "15", "60", "200"),
    "group": ("8", "2", "4", "16", "64"),
    "batch": ("8", "4", "32"),
    "features": ("local", "additive"),
    "update": ("KL .003", "Adam .05"),
}
# levels between two others, or slow: their jobs come after all others of ``one_at_a_time``
LATER: Final = frozenset({"5 % wrong", "15", "200", "group 4", "group 64", "batch 4", "batch 32"})
RANDOM: Final = 16  # settings of the random fraction
BASELINE: Final = "grpo"
EXACT: Final = "oracle_adv"
REGISTERED: Final = (
    "grpo", "gigpo", "graphgpo", "rewardflow", "hgpo", "grouptd", "mt_ppo[linear]",
)  # fmt: skip
CONTROLS: Final = ("stateless", EXACT)
# equal to grpo here, read annotations that do not exist here, or were not run
NOT_COMPARED: Final = frozenset({"rloo", "steppo", "beacon", "mt_grpo", "step_to_go", "turn_loo", *CONTROLS})
# methods that are another one with other weights between groups, or with other groups
ALTERED: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "graphgpo, equal RMS": ("graphgpo", {"scale": "group"}),
    "rewardflow, equal RMS": ("rewardflow", {"scale": "group"}),
    "grouptd, equal RMS": ("grouptd", {"scale": "group"}),
    "grouptd, centred": ("grouptd", {"centring": "group"}),
    "grpo, dynamic sampling": ("grpo", {"dynamic": True}),
}


@dataclass(frozen=True, slots=True)
class Setting:
    """One level of every factor; see ``FACTORS``."""

    tasks: str = "pits"
    keys: str = "Markov"
    outcome: str = "0/1"
    transitions: str = "deterministic"
    turns: str = "20 to 30"
    group: str = "8"
    batch: str = "8"
    features: str = "local"
    update: str = "KL .003"

    def __str__(self) -> str:
        return ", ".join(
            getattr(self, f.name) if f.name not in SAID else f"{f.name} {getattr(self, f.name)}" for f in fields(self)
        )

    @property
    def condition(self) -> str:
        """What differs from the base setting of these tasks, the update left out."""
        names = [f.name for f in fields(self) if f.name not in ("tasks", "update")]
        changed = {name: getattr(self, name) for name in names if getattr(self, name) != FACTORS[name][0]}
        return ", ".join(f"{name} {level}" if name in SAID else level for name, level in changed.items()) or "base"

    @property
    def possible(self) -> bool:
        """Whether the tasks have such keys: on a plain grid nothing is hidden."""
        return self.keys != "hidden" or self.tasks != "pits"

    @property
    def cell(self) -> StudyCell:
        """The setting as a cell of the suite ``shared``."""
        wrong = self.outcome.removesuffix(" % wrong")
        return StudyCell(
            self.tasks,
            self.features,
            int(self.batch),
            int(self.group),
            rate=0.05 if self.update.startswith("Adam") else 0.0,
            state_keys=cast("StateKeys", "" if self.keys == "Markov" else self.keys),
            graded=self.outcome == "graded",
            slip=0.2 if self.transitions != "deterministic" else 0.0,
            horizon=0 if self.turns == FACTORS["turns"][0] else int(self.turns),
            wrong=int(wrong) / 100.0 if wrong != self.outcome else 0.0,
        )


SAID: Final = ("keys", "turns", "group", "batch", "features")  # factors whose level needs the factor's name


def one_at_a_time() -> list[Setting]:
    """The base settings of pits and Sokoban with one factor varied, and key and door with and without the key's place hidden."""
    found = []
    for tasks in FACTORS["tasks"][:2]:
        base = Setting(tasks)
        found.append(base)
        for name in [f.name for f in fields(Setting) if f.name not in ("tasks", "update")]:
            found += [replace(base, **{name: level}) for level in FACTORS[name][1:]]
    found += [Setting("key"), Setting("key", keys="hidden")]
    return [replace(one, update=update) for one in found if one.possible for update in FACTORS["update"]]


def fraction(count: int = RANDOM, seed: int = 0) -> list[Setting]:
    """Settings drawn uniformly from all; groups of 64 and 200 turns together, which take an hour each, are drawn again."""
    rng, drawn = np.random.default_rng(seed), dict[Setting, None]()
    known = set(one_at_a_time())
    while len(drawn) < count:
        setting = Setting(**{name: levels[int(rng.integers(len(levels)))] for name, levels in FACTORS.items()})
        rollouts = int(setting.group) * int(setting.batch)
        if (
            setting.possible
            and setting not in known
            and rollouts <= 512
            and (rollouts <= 128 or setting.turns != "200")
        ):
            drawn[setting] = None
    return list(drawn)


def settings() -> list[Setting]:
    """All settings."""
    long = [
        Setting("long", update=update) for update in FACTORS["update"]
    ]  # large grids, added after the first jobs had run
    return [*one_at_a_time(), *fraction(), *long]


def jobs(units: int) -> list[tuple[Setting, int]]:
    """All jobs, a layout seed after the other: under each first those of the conditions that decide most."""
    first = [
        one
        for one in one_at_a_time()
        if not LATER & {one.outcome, one.turns, f"group {one.group}", f"batch {one.batch}"}
    ]
    rest = [one for one in settings() if one not in set(first)]
    long = [setting for setting in rest if setting.tasks == "long"]
    rest = [setting for setting in rest if setting.tasks != "long"]
    return [(setting, unit) for unit in range(units) for setting in (*first, *long, *rest)]


@cache
def conditions() -> Mapping[tuple[str, str], int]:
    """The tasks and conditions of all settings, numbered."""
    distinct = dict.fromkeys((setting.tasks, setting.condition) for setting in settings())
    return {condition: number for number, condition in enumerate(distinct)}


def half(setting: Setting) -> str:
    """In which half a setting is: "design" for every other condition in the order of ``settings``, the rest are for confirmation."""
    return "design" if conditions()[setting.tasks, setting.condition] % 2 == 0 else "confirmation"


def methods() -> list[str]:
    """All methods that run in a setting as it is: those registered in the package now, the controls, and the estimators under study."""
    newer = [
        name
        for name in credit.names()
        if name not in REGISTERED and name not in NOT_COMPARED and name not in ESTIMATORS
        and not (scheme := credit.make(name)).needs and not scheme.requires_tokens and not scheme.task_fields
    ]  # fmt: skip
    return [*REGISTERED, *newer, *ESTIMATORS, *CONTROLS]


def labels() -> list[str]:
    """What all methods are called in the results."""
    return [*methods(), *ALTERED]


def cells_of(setting: Setting, wanted: Sequence[str]) -> Iterator[tuple[StudyCell, dict[str, str]]]:
    """The cells of a setting in which the wanted methods run, and in each what a method is called in the results."""
    cells: dict[StudyCell, dict[str, str]] = {}
    for label in wanted:
        method, changes = ALTERED.get(label, (label, {}))
        cells.setdefault(replace(setting.cell, **changes), {})[method] = label
    yield from cells.items()


def layout_seed(setting: Setting, unit: int) -> int:
    """The layout seed of a job: every condition has tasks of its own, and both kinds of update the same ones."""
    return 1000 * unit + conditions()[setting.tasks, setting.condition]


def measure(setting: Setting, wanted: Sequence[str], seed: int, unit: int) -> dict[str, Any]:
    """One job: area and final success on training and held-out tasks, by method."""
    values: dict[str, list[float]] = {}
    undefined: dict[str, str] = {}
    for cell, label_of in cells_of(setting, wanted):
        part = run_unit(cell, WORK, (), list(label_of), seed, layout_seed(setting, unit))
        if "impossible" in part:
            return {"values": {}, "undefined": dict.fromkeys(wanted, part["impossible"])}
        for name, (train, held_out) in part["curves"].items():
            endpoints = np.mean(train[1:]), train[-1], np.mean(held_out[1:]), held_out[-1]
            values[label_of[name]] = [round(float(x), 5) for x in endpoints]
        undefined |= {label_of[name]: reason for name, reason in part["undefined"].items()}
    return {"values": values, "undefined": undefined}


def run(path: Path, seeds: int, seed: int, minutes: float, *, stored: bool) -> None:
    """Do the missing jobs (not if ``stored``) in the order of ``jobs``; of a job that is there the methods that it lacks."""
    register_estimators()
    begin = time.monotonic()
    done: dict[tuple[str, int], set[str]] = {}
    for row in rows_of(path):
        if row["seed"] != seed:
            raise SystemExit(f"{path} has results of seed {row['seed']}, not of {seed}; name another file")
        done.setdefault((row["setting"], row["unit"]), set()).update(row["values"], row["undefined"])
    with path.open("a", encoding="utf-8") as stream:
        for setting, unit in jobs(seeds):
            wanted = [label for label in labels() if label not in done.get((str(setting), unit), ())]
            if not wanted or (stored and (str(setting), unit) not in done):
                continue
            if time.monotonic() - begin > 60.0 * minutes:
                return
            started = time.process_time()
            row = {"setting": str(setting), "half": half(setting), "seed": seed, "unit": unit}
            row |= measure(setting, wanted, seed, unit)
            row["seconds"] = round(time.process_time() - started, 2)
            stream.write(json.dumps(row, separators=(",", ":"), ensure_ascii=False) + "\n")
            stream.flush()


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The stored rows."""
    beginning = '{"setting":"'
    return [row for _, row in read_appended(path, beginning, "results of this study")] if path.exists() else []


def main() -> int:
    """Run the study, or print its tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="file of the results, a line a job")
    parser.add_argument("--minutes", type=float, default=1e9, help="end after the job in which this time has passed")
    parser.add_argument("--seeds", type=int, default=WORK.units, help="layout seeds")
    parser.add_argument("--seed", type=int, default=17, help="seed of the tasks")
    parser.add_argument(
        "--stored", action="store_true", help="measure new methods in the jobs that are there, and no other jobs"
    )
    arguments = parser.parse_args()
    run(arguments.out, arguments.seeds, arguments.seed, arguments.minutes, stored=arguments.stored)
    return 0


if __name__ == "__main__":
    sys.exit(main())
