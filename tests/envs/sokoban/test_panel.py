"""The embedded panel standard-v1: pinned, true to its ids and strata, disjoint, reproducible."""

from __future__ import annotations

import hashlib
from collections import Counter
from importlib.resources import files

import pytest
from helpers.panels.sokoban import LENGTH_RANGES, level_strata, stratum_rows

from creditflow.envs.sokoban import SokobanEnv, parse_level
from creditflow.envs.sokoban.tasks import build_task
from creditflow.envs.tasks import load_panel

PANEL = load_panel("sokoban", "standard-v1")
SHA256 = "8742364e07fafeee2824697fb24aea7de2bf59f92e514f5fcfb1d6b74f6848cb"


def test_the_file_is_pinned():
    data = (files("creditflow.assets") / "panels" / "sokoban" / "standard-v1.json").read_bytes()
    assert hashlib.sha256(data).hexdigest() == SHA256
    assert len(data) < 300_000


def test_splits_have_their_published_sizes():
    assert Counter(row.split for row in PANEL.rows) == {"train": 300, "valid": 60, "test": 60}


def test_every_row_hashes_to_its_id():
    assert all(build_task(row.locator).task_id == row.task_id for row in PANEL.rows)


def test_no_two_levels_are_equal_up_to_symmetry():
    assert len({build_task(row.locator).canonical_id for row in PANEL.rows}) == len(PANEL.rows)


def test_every_stratum_has_the_same_split_sizes():
    counts = Counter((row.strata["stratum"], row.split) for row in PANEL.rows)
    assert set(counts.values()) == {25, 5}
    assert len(counts) == 3 * 12


def test_recorded_strata_are_those_of_the_levels():
    for row in PANEL.rows[::9]:
        assert level_strata(parse_level(row.locator["xsb"])) == row.strata


def test_every_level_can_be_solved_within_the_default_limit():
    env = SokobanEnv(panel="standard-v1")
    for row in PANEL.rows[::7]:
        env.reset(options={"task_id": row.task_id})
        assert env.oracle.distance(env.get_state()) == row.strata["length"] <= env.max_steps - 10


@pytest.mark.parametrize("index", [0, 1])
def test_the_panel_is_reproducible(index):
    low, high, _ = LENGTH_RANGES[index]
    published = [row for row in PANEL.rows if low <= row.strata["length"] <= high]
    made = [row for rows in stratum_rows(index).values() for _, row in rows]
    assert {row.task_id: row for row in made} == {row.task_id: row for row in published}
