"""The time that schemes take to assign credit, on one set of random rollouts that have everything any scheme reads.

Run: ``python -m creditflow.train.cards.cost --out COST.json`` measures every registered scheme and the main variants of grouptd.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np

from creditflow.envs.files.atomic import write_json
from creditflow.train.arguments.outputs import add_output
from creditflow.train.arguments.programs import run_program
from creditflow.train.bench.report.provenance import provenance
from creditflow.train.cards.rollouts import complete_group, needed_annotations
from creditflow.wrappers import credit
from creditflow.wrappers.credit.states.grouptd import VARIANTS
from creditflow.wrappers.records.group import Group

__all__ = ["add_arguments", "main", "measured_costs", "run"]

GROUPS, SIZE, TURNS, STATES = 16, 8, 50, 41
ENTITIES: Final = 40
ROUNDS: Final = 5
MEASURED_VARIANTS: Final = ("grouptd_base", "grouptd_relative_pooled")


def measured_costs(names: Sequence[str] = ()) -> dict[str, float]:
    """By scheme, milliseconds of processor time for 1000 turns, the arrays of the groups included: the minimum of five rounds.

    Every round times each scheme once, so that other load on the machine slows all of them alike.

    Args:
        names: names of schemes and variants of grouptd; all by default.
    """
    schemes = {name: _scheme(name) for name in names or (*credit.names(), *MEASURED_VARIANTS)}
    rollouts = random_rollouts()
    turns = sum(len(group.turns) for group in rollouts)
    best = dict.fromkeys(schemes, float("inf"))
    for _ in range(ROUNDS):
        for name, scheme in schemes.items():
            groups = [Group(group.trajectories, group.task) for group in rollouts]  # arrays are computed once per Group
            began = time.process_time()
            scheme.assign_batch(groups)
            best[name] = min(best[name], time.process_time() - began)
    return {name: float(f"{1e6 * seconds / turns:.3g}") for name, seconds in best.items()}


def _scheme(name: str) -> credit.Scheme:
    if name in MEASURED_VARIANTS:
        return credit.make("grouptd", **VARIANTS[name])
    options: dict[str, Any] = {"penalty": 0.0} if name == "pica" else {}  # it grows exponentially with the turn
    return credit.make(name, **options)


@lru_cache(maxsize=1)
def random_rollouts() -> tuple[Group, ...]:
    """Random walks over the states of their group, with annotations, texts and tokens."""
    rng = np.random.default_rng(0)
    return tuple(_group(rng, f"{g}", len(needed_annotations())) for g in range(GROUPS))


def _group(rng: np.random.Generator, name: str, annotations: int) -> Group:
    states, entities, numbers, won = [], [], [], []
    for _ in range(SIZE):
        states.append([f"{state}" for state in rng.integers(0, STATES, TURNS + 1).tolist()])
        entities.append(rng.integers(0, ENTITIES, TURNS + 1).tolist())
        numbers.append(rng.uniform(0.1, 0.9, (annotations, TURNS + 1)))
        won.append(bool(rng.random() < 0.4))
    return complete_group(states, entities, np.array(numbers), won, known=ENTITIES, name=name)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the program's arguments."""
    add_output(parser, "--out", required=True, metavar="FILE", help="file to write")


def run(args: argparse.Namespace) -> int:
    """Measure and write the file."""
    document = {
        "provenance": provenance([], 0) | {"command": args.command_line},
        "rollouts": f"{GROUPS} groups of {SIZE} rollouts of {TURNS} turns in {STATES} states",
        "milliseconds_per_1000_turns": measured_costs(),
    }
    write_json(args.out, document)
    print(f"{args.out}: {len(credit.names()) + len(MEASURED_VARIANTS)} schemes", file=sys.stderr)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit code."""
    return run_program("creditflow.train.cards.cost", arguments)


if __name__ == "__main__":
    sys.exit(main())
