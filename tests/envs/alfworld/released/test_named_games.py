"""Games of the release that the manifest knows by name only."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.worlds.game_files import archive_of, write_games

from creditflow.envs.alfworld.game import Game
from creditflow.envs.alfworld.game_files import check as check_module
from creditflow.envs.alfworld.game_files.check import compare_games, named_games, read_games
from creditflow.envs.alfworld.game_files.export import game_fields
from creditflow.envs.alfworld.generator import generate
from creditflow.envs.alfworld.panel import manifest_rows
from creditflow.envs.tasks import load_panel
from creditflow.train.rollout.score_table import TYPE_NAMES

SPLITS = ("train", "valid_seen", "valid_unseen")


def game_of(seed: int) -> bytes:
    return json.dumps({**game_fields(Game(generate(seed)), ["look"]), "solvable": True}).encode()


def test_games_that_are_known_by_name_are_missing_there_or_of_another_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_module, "PUBLISHED", {"valid_seen": 2})
    released = {"valid_seen/pick_and_place_simple-Mug-None-Desk-3/trial_3/game.tw-pddl": game_of(3)}
    rows = tuple(manifest_rows(archive_of(tmp_path / "games.tar", list(released.items()))))
    kind = Game(generate(99)).content["goal"][0]
    named = f"valid_seen/{kind}-Mug-None-Desk-99/trial_99/game.tw-pddl"
    game = game_of(99)
    other = next(seed for seed in range(50) if Game(generate(seed)).content["goal"][0] != kind)
    for data, expected, complete, verdict in (
        (None, "missing", False, "Not for the released valid_seen: 1 of its games are not there"),
        (game, "text unknown", True, "can stand for the released valid_seen; the texts of 1 more"),
        (game_of(other), "other world", False, "1 of its games are not there"),
        (b"{}", "unusable", False, "Not for the released valid_seen"),
    ):
        folder = write_games(tmp_path / expected, released | ({named: data} if data else {}))
        report = compare_games("games", read_games(folder, SPLITS), rows, [named])
        assert {one.name: one.kind for one in report.differences} == {named: expected}
        part = report.parts[0]
        assert (part.counts[expected], part.listed_complete, part.published_complete) == (1, True, complete)
        assert verdict in part.verdict
        assert report.complete, "what the manifest lists is as released"


def test_a_copy_of_a_listed_game_is_not_one_that_is_known_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No two released games are equal, so a copy in the place of one stands for none."""
    monkeypatch.setattr(check_module, "PUBLISHED", {"valid_seen": 2})
    kind = Game(generate(3)).content["goal"][0]
    listed, named = (f"valid_seen/{kind}-Mug-None-Desk-{n}/trial_{n}/game.tw-pddl" for n in (3, 99))
    rows = tuple(manifest_rows(archive_of(tmp_path / "games.tar", [(listed, game_of(3))])))
    folder = write_games(tmp_path / "games", {listed: game_of(3), named: game_of(3)})
    report = compare_games("games", read_games(folder, SPLITS), rows, [named])
    assert [(one.kind, one.detail) for one in report.differences] == [("other world", f"a copy of {listed}")]
    assert not report.parts[0].published_complete


def test_listed_and_named_games_are_of_each_type_as_many_as_published() -> None:
    """Pick, Look, Clean, Heat, Cool, Pick2 of train, valid_seen and valid_unseen: table 1 of ALFWorld's paper."""
    published = {
        "train": (790, 308, 650, 459, 533, 813),
        "valid_seen": (35, 13, 27, 16, 25, 24),
        "valid_unseen": (24, 18, 31, 23, 21, 17),
    }
    named = named_games(SPLITS)
    rows = load_panel("alfworld", "released-v2").rows
    assert not set(named) & {row.locator["path"] for row in rows}
    paths = [*named, *(row.locator["path"] for row in rows)]
    for split in SPLITS:
        types = [path.split("/")[1].split("-")[0] for path in paths if path.startswith(f"{split}/")]
        assert tuple(types.count(kind) for kind in TYPE_NAMES) == published[split]
