"""Credit schemes on untrusted logs and columns: finite numbers or one of our errors."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from creditflow.wrappers import credit
from creditflow.wrappers.credit.bridge import TurnColumns
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import read_groups
from fuzz.mutate_data import freeze, mutate_lines, mutate_recipe, thaw
from fuzz.samples import log_text
from fuzz.target import MismatchError, Target


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
    Target(name="credits/verl-rows", read=_rows, seeds=lambda _: [freeze(ROWS)], mutate=mutate_recipe, cases=120),
)
