"""The manifest of the release, panel ``released-v2``."""

from __future__ import annotations

from creditflow.envs.alfworld.game_files.check import listed_games
from creditflow.envs.tasks import load_panel

SPLITS = ("train", "valid_seen", "valid_unseen")


def test_only_the_named_splits_are_listed() -> None:
    assert {row.split for row in listed_games(("valid_unseen",))} == {"valid_unseen"}


def test_the_manifest_has_the_games_of_the_older_panel_under_the_same_ids() -> None:
    released_v2 = load_panel("alfworld", "released-v2")
    assert [len(released_v2.split(split)) for split in SPLITS] == [3_547, 134, 126]
    by_id = {row.task_id: row for row in released_v2.rows}
    names = {"train": "train", "valid": "valid_seen", "test": "valid_unseen"}
    for row in load_panel("alfworld", "released-v1").rows:
        same = by_id[row.task_id]
        assert (same.split, same.locator) == (names[row.split], row.locator)
        assert {**row.strata, "world": same.strata["world"]} == same.strata
