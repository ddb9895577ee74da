"""The page on learning with entity credit quotes the stored tables, which follow from the values by seed and question."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from experiments.entity_learning.summary import by_arm, learners, tables

FOLDER = Path(__file__).parents[2] / "evidence" / "entity_learning"
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")
RUNS = ("", "long")
INTERVAL = re.compile(r"([+-]?\d+\.\d+) \[([+-]?\d+\.\d+), ([+-]?\d+\.\d+)\]")


def stored(run: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(gzip.decompress((FOLDER / run / "results.json.gz").read_bytes()))["parts"]
    return found


def intervals(text: str) -> set[tuple[float, ...]]:
    return {tuple(map(float, found)) for found in INTERVAL.findall(text.replace("−", "-"))}


@pytest.mark.parametrize("run", RUNS)
def test_the_tables_follow_from_the_stored_values(run: str) -> None:
    assert tables(stored(run)) == (FOLDER / run / "tables.txt").read_text(encoding="utf-8")


def test_every_interval_on_the_page_is_in_a_table() -> None:
    printed = set().union(*(intervals((FOLDER / run / "tables.txt").read_text(encoding="utf-8")) for run in RUNS))
    quoted = intervals(PAGE)
    assert len(quoted) > 20
    assert quoted <= printed


def test_all_arms_have_the_same_seeds_questions_and_updates() -> None:
    arms = by_arm(stored(""))
    assert len({len(parts) for parts in arms.values()}) == 1
    assert {len(part[kind]["em"]) for parts in arms.values() for part in parts for kind in ("sampled", "greedy")} == {
        160
    }
    assert {len(part["behaviour"]) for name in learners(arms) for part in arms[name]} == {32}
    assert len(next(iter(arms.values()))) >= 5
