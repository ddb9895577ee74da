"""The time that schemes take to assign credit, on one set of random rollouts that have everything any scheme reads.

Run: ``python -m creditflow.train.cards.cost --out COST.json`` measures every registered scheme and the main variants of grouptd.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.files.atomic import write_json
from creditflow.train.arguments.outputs import add_output
from creditflow.train.arguments.programs import run_program
from creditflow.train.bench.report.provenance import provenance
from creditflow.wrappers import credit
from creditflow.wrappers.credit.registry import lookup
from creditflow.wrappers.credit.states.grouptd import VARIANTS
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.tokens import Tokens
from creditflow.wrappers.records.trajectory import Trajectory, Turn

__all__ = ["add_arguments", "complete_group", "main", "measured_costs", "needed_annotations", "run"]


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


def needed_annotations() -> list[str]:
    """The annotations of turns that some scheme needs, in alphabetical order."""
    return sorted({name for scheme in credit.names() for name in lookup(scheme).requires})


def complete_group(
    states: Sequence[Sequence[str]],
    entities: Sequence[Sequence[int]],
    numbers: NDArray[np.float64],
    won: Sequence[bool],
    *,
    known: int,
    name: str = "g",
) -> Group:
    """A group of G rollouts through given states, with everything any scheme reads: annotations, texts, passages and tokens.

    Args:
        states: by rollout T + 1 state keys.
        entities: by rollout T + 1 numbers of entities: turn t observes and retrieves number t, and its thought names number t + 1.
        numbers: float64 (G, A, T + 1) in (0, 1), the values of the A ``needed_annotations`` before each turn and at the end;
            log-probabilities are 1 less.
        won: by rollout whether it succeeded.
        known: number of entities of the task, which has a relation between each and the next, and a document of each.
        name: id of the group.
    """
    members = []
    for i, (keys, named, row, success) in enumerate(zip(states, entities, numbers, won, strict=True)):
        length = len(keys) - 1
        values = _values(row)
        turns = tuple(
            Turn(
                keys[t], f"go {keys[t + 1]}", keys[t + 1], reward=float(success and t == length - 1), text_key=keys[t],
                effective=keys[t] != keys[t + 1], observation=f"saw entity {named[t]}", thought=f"entity {named[t + 1]}",
                queries=(f"word{t}",), doc_ids=(f"d{named[t]}",), values=values[t],
            )
            for t in range(length)
        )  # fmt: skip
        members.append(
            Trajectory(
                f"{i}", name, name, turns, success, float(success), "success" if success else "failed", keys[-1],
                final_text_key=keys[-1], tokens=_tokens(length),
            )
        )  # fmt: skip
    return Group(tuple(members), _task(known))


def _values(numbers: NDArray[np.float64]) -> list[Mapping[str, float]]:
    """Annotations of each turn, before (``NAME``) and after it (``NAME.next``)."""
    named = zip(needed_annotations(), numbers, strict=True)
    of = {name: (row - float(name.startswith("logp."))).tolist() for name, row in named}
    before = [dict(zip(of, column, strict=True)) for column in zip(*of.values(), strict=True)]
    return [values | _of_next_turn(following) for values, following in pairwise(before)]


def _of_next_turn(values: Mapping[str, float]) -> dict[str, float]:
    return {f"{name}.next": value for name, value in values.items()}


def _tokens(turns: int) -> Tokens:
    """Two tokens a turn: one observed, one of the model."""
    return Tokens(
        ids=np.zeros(2 * turns, np.int32),
        mask=np.tile([False, True], turns),
        logprobs=np.zeros(2 * turns, np.float32),
        turn_offsets=np.arange(0, 2 * turns + 1, 2, dtype=np.int32),
        values={"value.critic": np.zeros(2 * turns + 1, np.float32)},
    )


def _task(entities: int) -> dict[str, Any]:
    names = [f"entity {n}" for n in range(entities)]
    return {
        "entities": names,
        "edges": [[a, "to", b] for a, b in pairwise(names)],
        "answer_node": names[0],
        "search_keys": [["word1 word2"]],
        "supporting": ["d0"],
        "documents": {f"d{n}": {"title": f"{n}", "text": f"word{n} of many"} for n in range(entities)},
    }


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
    """Run the command line and return its exit code."""
    return run_program("creditflow.train.cards.cost", arguments)


if __name__ == "__main__":
    sys.exit(main())
