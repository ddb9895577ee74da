"""The page on transfer has the tables of the evidence, and its conclusions are what the evidence says."""

from __future__ import annotations

import json
from typing import Any

from evidence.alfworld.transfer.page import EVIDENCE, PAGE, replaced

FOUND = json.loads(EVIDENCE.read_text("ascii"))


def _difference(pair: str, decoding: str, split: str) -> dict[str, Any]:
    found: dict[str, Any] = FOUND["differences"][f"{pair}/{decoding}"][split]
    return found


def test_the_page_has_the_tables_of_the_evidence() -> None:
    page = PAGE.read_text("utf-8")
    assert replaced(page, FOUND) == page


def test_every_difference_has_intervals_over_games_and_scenes_around_its_mean() -> None:
    rows = [row for splits in FOUND["differences"].values() for split in splits.values() for row in split.values()]
    assert len(rows) > 50
    for row in rows:
        for over in ("over_games", "over_scenes"):
            mean, low, high = row[over]
            assert low <= mean <= high


def test_equivalence_is_claimed_from_intervals_alone() -> None:
    for splits in FOUND["differences"].values():
        for found in splits.values():
            for measure, margin in FOUND["margins"].items():
                _, low, high = found[measure]["over_games"]
                assert found[measure]["within_margin"] == (-margin <= low and high <= margin)


def test_success_of_400_games_each_is_equivalent_on_both_splits() -> None:
    for split in ("valid_seen", "valid_unseen"):
        for decoding in ("greedy", "sampled"):
            assert _difference("generated-400 - released-400", decoding, split)["success"]["within_margin"]


def test_100_released_games_are_better_than_100_houses() -> None:
    assert _difference("generated-100 - released-100", "greedy", "valid_unseen")["commands"]["over_games"][1] > 0


def test_houses_cost_commands_in_scenes_that_their_statistics_did_not_come_from() -> None:
    for over in ("over_games", "over_scenes"):
        mean, low, _ = _difference("generated_odd-300 - released_odd-300", "greedy", "even_scenes")["commands"][over]
        assert low > 0
        assert mean < 2


def test_houses_that_follow_100_games_are_worth_more_than_these_games() -> None:
    for split in ("valid_seen", "valid_unseen"):
        assert _difference("refitted-400 - released-100", "sampled", split)["commands"]["over_games"][2] < 0


def test_the_measure_can_tell_training_sets_apart() -> None:
    """The generator that did not follow the release is worse than released games, on both splits."""
    for split in ("valid_seen", "valid_unseen"):
        found = _difference("standard-v1-400 - released-400", "greedy", split)
        assert found["success"]["over_games"][2] < 0
        assert found["commands"]["over_games"][1] > 0


def test_the_language_models_hardly_win() -> None:
    for splits in FOUND["language_model"]["models"].values():
        assert splits["valid_unseen"]["success"][0] < 0.05
