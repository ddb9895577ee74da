"""Credit schemes on untrusted logs: finite numbers or one of our errors, in time linear in the log."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from creditflow.wrappers import credit
from creditflow.wrappers.credit.bridge import TurnColumns
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import read_groups
from creditflow.wrappers.trajectory import Trajectory, Turn
from fuzz.mutate_bytes import below, pick
from fuzz.mutate_data import freeze, mutate_lines, mutate_recipe, thaw
from fuzz.samples import groups, log_text
from fuzz.target import MismatchError, Target

LENGTH = 5_000  # turns of a long episode


def _check_finite(scheme: str, whole: Sequence[Group]) -> None:
    for one in credit.make(scheme).assign_batch(list(whole)):
        if not np.isfinite(one.flat_advantages).all():
            raise MismatchError(f"{scheme} gives an advantage that is not finite")


def _log(data: bytes, _: Path) -> None:
    """Run every scheme on one log; an error of one does not stop the others."""
    found = read_groups(io.StringIO(data.decode("utf-8", "replace")))
    for scheme in credit.names():
        try:
            _check_finite(scheme, found)
        except credit.CreditError:
            continue


def _long(data: bytes, _: Path) -> None:
    """Run one scheme on two long episodes, along a chain of states or in a loop."""
    scheme, shape = data.decode().split()
    members = []
    for i in range(2):
        keys = [f"s{i if t % 7 == 0 else 'x'}{t if shape == 'chain' else t % 50}" for t in range(LENGTH + 1)]
        turns = tuple(
            Turn(
                keys[t], f"a{t % 3}", keys[t + 1], text_key=keys[t], observation="Paris is old.", queries=("Paris",),
                doc_ids=(f"d{t % 100}",), values={"value.critic": 0.5, "value.pica": 0.5, "judge.score": 0.5},
            )
            for t in range(LENGTH)
        )  # fmt: skip
        won = i == 0
        members.append(
            Trajectory(
                f"t{i}", "g", "task", turns, won, float(won), "success" if won else "failed", keys[-1],
                final_text_key=keys[-1],
            )
        )  # fmt: skip
    task = {
        "text": "Paris?", "answers": ["Paris"], "entities": [{"name": "Paris", "aliases": []}], "edges": [],
        "answer_node": "Paris", "documents": {f"d{i}": {"title": "Paris", "text": "Paris is old."} for i in range(100)},
    }  # fmt: skip
    try:
        _check_finite(scheme, [Group(tuple(members), task)])
    except credit.CreditError:
        return


def _branches(data: bytes, _: Path) -> None:
    """Check that a branch's own turns get the step rewards that they get in a whole trajectory, as its prefix was executed."""
    scheme, at, number = data.decode().split()
    group = groups("wikisearch", size=3, tasks=4)[int(number)]
    first = max(group.trajectories, key=lambda member: len(member.turns))
    fork = min(int(at), len(first.turns) - 1)
    if fork < 1:
        return
    branch = replace(
        first, trajectory_id="branch", turns=first.turns[fork:], parent=first.trajectory_id, fork_turn=fork, tokens=None
    )
    whole = replace(first, trajectory_id="whole", tokens=None)
    try:
        cut = credit.make(scheme).assign(Group((first, branch), group.task))
        same = credit.make(scheme).assign(Group((first, whole), group.task))
    except credit.CreditError:
        return
    if not np.allclose(cut.step_rewards[1], same.step_rewards[1][fork:]):
        raise MismatchError(
            f"{scheme}: step rewards {cut.step_rewards[1]} in a branch at turn {fork}, {same.step_rewards[1]} in the whole"
        )


LOCAL = ("stepsearch", "gdcr", "egrpo", "sapo")  # schemes whose step rewards depend on one trajectory alone


def _of(*names: str) -> Callable[[np.random.Generator, Sequence[bytes]], bytes]:
    def mutate(rng: np.random.Generator, _: Sequence[bytes]) -> bytes:
        return f"{pick(rng, names)} {1 + below(rng, 6)} {below(rng, 4)}".encode()

    return mutate


# -- the bridge's columns --------------------------------------------------------------------------------------------
ROWS = {
    "group": ["g", "g", "g", "g"], "trajectory": ["a", "a", "b", "b"], "state": ["s", "t", "s", "u"],
    "reward": [0.0, 1.0, 0.0, 0.0], "next_state": ["t", "end", "u", "fin"], "turn": [0, 1, 0, 1],
    "valid": [True, True, True, False], "action": ["x", "y", "x", "z"], "ended": ["success", "success", "failed", "failed"],
    "active": [True, True, True, True], "score": [1.0, 1.0, 0.5, 0.5],
}  # fmt: skip


def _rows(data: bytes, _: Path) -> None:
    columns = thaw(data)
    if (
        isinstance(columns, dict)
        and set(columns) <= set(ROWS)
        and {"group", "trajectory", "state", "reward"} <= set(columns)
        and all(isinstance(column, list) for column in columns.values())  # the columns of a batch are lists of anything
    ):
        for scheme in ("grpo", "gigpo", "graphgpo", "grouptd"):
            credit.advantages(scheme, TurnColumns(**columns), incomplete="keep")


TARGETS = (
    Target(
        name="credits/logs",
        read=_log,
        mutate=mutate_lines,
        cases=30,
        seconds=10.0,
        seeds=lambda _: [log_text(name).encode("ascii") for name in ("sokoban", "wikisearch")],
    ),
    Target(
        name="credits/long",
        read=_long,
        seeds=lambda _: [],
        mutate=lambda _, samples: samples[0],
        cases=0,
        seconds=5.0,
        traps=lambda: [f"{scheme} {shape}".encode() for scheme in credit.names() for shape in ("chain", "loop")],
        megabytes=1024,
    ),
    Target(
        name="credits/branches",
        read=_branches,
        seeds=lambda _: [],
        mutate=_of(*LOCAL),
        cases=16,
        traps=lambda: [f"{scheme} 1 0".encode() for scheme in LOCAL],
    ),
    Target(name="credits/verl-rows", read=_rows, seeds=lambda _: [freeze(ROWS)], mutate=mutate_recipe, cases=120),
)
