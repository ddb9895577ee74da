"""Writes ``tests/evidence/text_games/results.json``: what a wrong state key costs in the two examples of ``wrappers/TEXT_GAMES.md``.

    PYTHONPATH=src:tests python tests/evidence/text_games/run.py house    where TextWorld is installed, extra [alfworld]
    PYTHONPATH=src:tests python tests/evidence/text_games/run.py guess    where GEM is installed, extra [gem-llm]

Both play the page's own code with uniformly random listed actions. Of every key: turns in a key in which some action had
different results (a Markov state has none in a deterministic game), turns in keys visited once, and turns in keys with two
different actions, which is where step credit compares. For the guessing game the exact advantage of every turn under the random policy
is known, and the correlation of a scheme's credit with it is measured. The unit of the intervals is the task.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from helpers.text_games import page_files

from creditflow.train.analyses.audit import key_statistics
from creditflow.train.statistics.student import t_quantile
from creditflow.wrappers import GroupEnv, credit
from creditflow.wrappers.records.group import Group

TARGET = Path(__file__).with_name("results.json")
TIERS = {"house": "alfworld", "guess": "gem"}
KEYS: Mapping[str, Mapping[str, Callable[[Any, Any], Any] | None]] = {
    "house": {
        "the facts": lambda _, info: info["facts"],
        "the text": None,
        "the text and the listed commands": lambda text, info: [text, info["admissible_actions"]],
    },
    "guess": {
        "what the hints leave": lambda _, info: info["known"],
        "what the hints leave, guesses used": lambda _, info: [*info["known"], len(info["history"])],
        "the last text": None,
        "all texts": lambda _, info: info["history"],
    },
}
SIZES = {"house": {"rooms": 3, "objects": 4, "quest": 3}, "guess": {}}
SCHEMES = ("grpo", "gigpo", "graphgpo", "grouptd")


def environment(name: str, folder: Path) -> Any:
    """The class that the page's block defines."""
    [path] = page_files(TIERS[name], folder)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name.capitalize())


def play(make: Callable[[], Any], task: int, size: int) -> Group:
    """A group of random episodes; equal for every key."""
    rng, group = np.random.default_rng([task, 1]), GroupEnv(make, size=size)
    infos = {i: info for i, (_, info) in enumerate(group.reset(seed=task))}
    while group.active:
        steps = group.step({i: str(rng.choice(infos[i]["admissible_actions"])) for i in group.active})
        infos = {i: step.info for i, step in steps.items()}
    return group.group()


def interval(values: list[float]) -> dict[str, float]:
    """Mean and 95 % interval over tasks."""
    mean, n = float(np.mean(values)), len(values)
    half = t_quantile(n - 1) * float(np.std(values, ddof=1)) / n**0.5
    return {"mean": mean, "low": mean - half, "high": mean + half}


def exact_advantages(group: Group, low: int, high: int, turns: int) -> list[float]:
    """Of every turn, under a policy that guesses uniformly among the numbers that the hints leave."""
    solved = [turn.action for one in group.trajectories if one.success for turn in one.turns[-1:]]
    target = int(solved[0].strip("\\boxed{}"))

    @cache
    def value(low: int, high: int, left: int) -> float:
        return 0.0 if left == 0 else float(np.mean([of(guess, low, high, left) for guess in range(low, high + 1)]))

    def of(guess: int, low: int, high: int, left: int) -> float:
        if guess == target:
            return 1.0
        return value(*((guess + 1, high) if guess < target else (low, guess - 1)), left - 1)

    found = []
    for one in group.trajectories:
        first, last = low, high
        for t, turn in enumerate(one.turns):
            guess = int(turn.action.strip("\\boxed{}"))
            found.append(of(guess, first, last, turns - t) - value(first, last, turns - t))
            first, last = (guess + 1, last) if guess < target else (first, guess - 1)
    return found


def measure(name: str, tasks: int, size: int) -> dict[str, Any]:
    """Of every key its statistics, and for the guessing game the correlation of credit with exact advantages."""
    rows: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        kind = environment(name, Path(folder))
        for label, key in KEYS[name].items():
            groups = [play(partial(kind, **SIZES[name], key=key), task, size) for task in range(tasks)]
            found = [key_statistics([group], "state") for group in groups]
            row: dict[str, Any] = {
                "turns in conflicted keys": interval([one.conflicted for one in found]),
                "turns in keys seen once": interval([one.singletons for one in found]),
                "turns with two actions": interval([one.comparable for one in found]),
                "success": interval([float(np.mean([one.success for one in group.trajectories])) for group in groups]),
                "turns": sum(len(group.turns) for group in groups),
            }
            if name == "guess":
                row["correlation with exact advantages"] = {scheme: correlation(scheme, groups) for scheme in SCHEMES}
            rows[label] = row
            print(label, json.dumps(row, indent=1))
    return {"tasks": tasks, "group_size": size, "keys": rows, **SIZES[name]}


def correlation(scheme: str, groups: list[Group]) -> dict[str, float]:
    """Pearson's r over the turns of a task, averaged over the tasks in which both vary."""
    values = []
    for group in groups:
        if any(one.success for one in group.trajectories):
            ours = np.concatenate(credit.make(scheme).assign(group).advantages)
            exact = np.array(exact_advantages(group, 1, 10, 4))
            if ours.std() > 0 and exact.std() > 0:
                values.append(float(np.corrcoef(ours, exact)[0, 1]))
    return {**interval(values), "tasks": len(values)}


def main() -> None:
    """Measure one part, and write it beside what is stored of the other."""
    name = sys.argv[1]
    machine = f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} at the start"
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    part = {
        "command": f"PYTHONPATH=src:tests python tests/evidence/text_games/run.py {name}",
        "commit": commit.stdout.strip(), "date": time.strftime("%Y-%m-%d"), "machine": machine,
        **measure(name, *{"house": (20, 8), "guess": (100, 16)}[name]),
    }  # fmt: skip
    page = json.loads(TARGET.read_text(encoding="utf-8")) if TARGET.exists() else {}
    page[name] = part
    TARGET.write_text(json.dumps(page, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
