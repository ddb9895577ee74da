"""Do stored results come out of today's code? A sample of each file is computed again and compared, number by number.

  python tests/evidence/reproduce.py [--rows 4] [--seed 0] [FILE …]

Prints a line for each file. Sums differ in the last bits between processors; the exit status is 1 if a number differs by more than
0.0001. Files that are not listed are records of the commit that they name.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from evidence.dense_rewards import run as dense_rewards
from evidence.settings import run as settings
from evidence.settings.estimators import register_estimators

__all__ = ["FILES", "TOLERANCE", "differences", "numbers_in", "sampled"]

FOLDER: Final = Path(__file__).resolve().parent
LISTED: Final = 5  # differences of a file that are printed
TOLERANCE: Final = 1e-4
Pair = tuple[str, Any, Any]  # what it is, as stored, as computed
Check = Callable[[Any, np.random.Generator, int], Iterator[Pair]]


def rows_of_settings(rows: Sequence[Mapping[str, Any]], rng: np.random.Generator, count: int) -> Iterator[Pair]:
    """Jobs of the study of settings: one setting under one layout seed."""
    register_estimators()
    named = {str(setting): setting for setting in settings.settings()}
    for row in _some(rows, rng, count):
        wanted = [*row["values"], *row["undefined"]]
        computed = settings.measure(named[row["setting"]], wanted, row["seed"], row["unit"])
        yield f"{row['setting']}, unit {row['unit']}", row["values"], computed["values"]


def rows_of_dense_rewards(rows: Sequence[Mapping[str, Any]], rng: np.random.Generator, count: int) -> Iterator[Pair]:
    """Parts of the study of dense rewards by tabular Q-learning on Sokoban."""
    tabular = [row for row in rows if row["learner"] == "q" and row["env"] == "Sokoban"]
    for row in _some(tabular, rng, count):
        computed = dense_rewards.q_learning(row["env"], row["arm"], row["used_rate"], row["seed"])
        stored = {name: row[name] for name in computed}
        yield dense_rewards.name_of(dict(row)), stored, {name: round(x, 6) for name, x in computed.items()}


def _some(items: Sequence[Any], rng: np.random.Generator, count: int) -> list[Any]:
    return [items[i] for i in sorted(rng.permutation(len(items))[:count])]


FILES: Final[Mapping[str, Check]] = {
    "settings/results.jsonl": rows_of_settings,
    "settings/second.jsonl": rows_of_settings,
    "dense_rewards/results.jsonl": rows_of_dense_rewards,
}


def sampled(name: str, count: int, seed: int = 0) -> Iterator[Pair]:
    """Computes a sample of a file again.

    Args:
        name: path of the file in this folder.
        count: number of rows.
        seed: seed of the sample.
    """
    rows = [json.loads(line) for line in (FOLDER / name).read_text("utf-8").splitlines()]
    yield from FILES[name](rows, np.random.default_rng(seed), count)


class Difference(NamedTuple):
    """Where two JSON values differ, and by how much; infinitely if they are not numbers."""

    where: str
    stored: Any
    computed: Any
    size: float


def differences(stored: Any, computed: Any, where: str = "") -> list[Difference]:
    """Where two JSON values differ. What an older file does not store is not compared."""
    if isinstance(stored, dict) and isinstance(computed, dict):
        return [d for key in stored for d in differences(stored[key], computed.get(key), f"{where}/{key}")]
    if isinstance(stored, list) and isinstance(computed, list) and len(stored) == len(computed):
        return [d for pair in zip(stored, computed, strict=True) for d in differences(*pair, where)]
    if stored == computed:
        return []
    numbers = isinstance(stored, int | float) and isinstance(computed, int | float)
    return [Difference(where, stored, computed, abs(stored - computed) if numbers else np.inf)]


def numbers_in(value: Any) -> int:
    """Number of numbers in a JSON value."""
    if isinstance(value, dict):
        return sum(map(numbers_in, value.values()))
    if isinstance(value, list):
        return sum(map(numbers_in, value))
    return int(isinstance(value, int | float))


def main() -> int:
    """Compare samples of the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE", help=f"default: all of {', '.join(FILES)}")
    parser.add_argument("--rows", type=int, default=4, help="rows of a file")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample")
    arguments = parser.parse_args()
    differ = False
    for name in arguments.files or FILES:
        numbers, found = 0, list[Difference]()
        for what, stored, computed in sampled(name, arguments.rows, arguments.seed):
            numbers += numbers_in(stored)
            found += differences(stored, computed, what)
        found.sort(key=lambda difference: -difference.size)
        result = f"{len(found)} differ, by at most {found[0].size:.2g}" if found else "all equal"
        print(f"{name}: {numbers} numbers, {result}", flush=True)
        for where, stored, computed, _ in found[:LISTED]:
            print(f"  {where}: stored {stored}, computed {computed}")
        differ = differ or any(difference.size > TOLERANCE for difference in found)
    return int(differ)


if __name__ == "__main__":
    sys.exit(main())
