"""The embedded panel ``small-v1``: its content is pinned, and no level of it is in ``standard-v1``."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from importlib.resources import files
from itertools import islice

from helpers.panels.sokoban import small_rows

from creditflow.envs.sokoban.tasks import build_task
from creditflow.envs.tasks import load_panel

PINNED = "f4b5c494b36ca057ab4975d85f96c78cbd6bb73e3de809712750487f37eb016d"


def test_content_is_pinned() -> None:
    data = (files("creditflow.assets") / "panels" / "sokoban" / "small-v1.json").read_bytes()
    assert sha256(data).hexdigest() == PINNED


def test_levels_are_distinct_up_to_symmetry_and_not_in_the_standard_panel() -> None:
    small, standard = ([build_task(row.locator).canonical_id for row in load_panel("sokoban", name).rows]
                       for name in ("small-v1", "standard-v1"))  # fmt: skip
    assert len(set(small)) == len(small) == 480
    assert not set(small) & set(standard)


def test_splits_hold_the_same_ranges_of_lengths() -> None:
    rows = load_panel("sokoban", "small-v1").rows
    counts = Counter((row.split, row.strata["stratum"]) for row in rows)
    assert {split: {counts[split, s] for _, s in counts if _ == split} for split in ("train", "valid", "test")} == {
        "train": {32}, "valid": {24}, "test": {64},
    }  # fmt: skip


def test_the_panel_is_reproducible() -> None:
    assert list(islice(small_rows(), 8)) == list(load_panel("sokoban", "small-v1").rows[:8])
