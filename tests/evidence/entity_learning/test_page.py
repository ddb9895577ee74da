"""The page on learning with entity credit quotes the stored tables, which follow from the values by seed and question."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evidence.entity_learning.summary import by_arm, learners, tables, values
from evidence.entity_learning.world import ARTICLES, WORLD_SEED, facts, make_world, questions
from numpy.typing import NDArray

from creditflow.train.statistics import crossed_mean

FOLDER = Path(__file__).parent
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")
RUNS = ("", "long", "replication", "replication/pilot", "replication/pilot_distractors")
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


def clustered_error(found: NDArray[np.float64], cluster: NDArray[np.int64]) -> float:
    """Standard error of the mean of (seeds, questions), clustered by seed and by the cluster of a question (Cameron, Gelbach and Miller)."""
    rest = found - found.mean()
    sums = np.stack([rest[:, cluster == c].sum(axis=1) for c in np.unique(cluster)], axis=1)
    seeds, clusters = sums.shape
    of_seeds = float((sums.sum(axis=1) ** 2).sum()) * seeds / (seeds - 1)
    of_clusters = float((sums.sum(axis=0) ** 2).sum()) * clusters / (clusters - 1)
    return float(np.sqrt(max(of_seeds + of_clusters - float((sums**2).sum()), of_seeds, of_clusters)) / found.size)


def test_questions_that_begin_at_the_same_entity_widen_no_difference() -> None:
    rng = np.random.default_rng([WORLD_SEED, 1])  # as ``write_world``
    asked = questions(facts(make_world(WORLD_SEED, ARTICLES)), rng)["test"]
    starts, cluster = np.unique([one.supporting[0] for one in asked], return_inverse=True)
    assert f"The {len(asked)} questions begin at {len(starts)} entities" in PAGE
    arms = by_arm(stored(""))
    found = {name: values(arms[name], "sampled", "em") for name in learners(arms)}
    gaps = {name: one - found["grpo"] for name, one in found.items() if name != "grpo"}
    wider, other = (
        [clustered_error(one, cluster) / crossed_mean(one).standard_error - 1.0 for one in some.values()]
        for some in (found, gaps)
    )
    assert f"are {100 * min(wider):.0f} to {100 * max(wider):.0f} % larger" in PAGE
    assert f"from grpo at most {100 * max(other):.0f} %" in PAGE
