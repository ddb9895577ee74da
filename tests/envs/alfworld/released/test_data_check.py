"""Released games compared with a manifest: every way in which a game can differ, and input that is not a game."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.hostile_files import worse_file
from helpers.panels.alfworld import manifest_rows
from helpers.worlds.game_files import archive_of, write_games
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.envs.alfworld.env import ALFWorldEnv
from creditflow.envs.alfworld.game import Game
from creditflow.envs.alfworld.game_files.check import compare_games, read_games
from creditflow.envs.alfworld.game_files.export import game_fields
from creditflow.envs.alfworld.generator import generate
from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.manifests import KINDS, DataReport, Item
from creditflow.envs.tasks import PanelRow, load_panel
from creditflow.train.cli import main

SPLITS = ("train", "valid_seen", "valid_unseen")
SEEDS = (3, 5, 8, 13)


def name_of(seed: int, split: str = "valid_seen") -> str:
    return f"{split}/pick_and_place_simple-Mug-None-Desk-{seed}/trial_{seed}/game.tw-pddl"


def fields_of(seed: int, **changes: Any) -> dict[str, Any]:
    return {**game_fields(Game({**generate(seed), **changes}), ["look"]), "solvable": True}


FIELDS = {seed: fields_of(seed) for seed in SEEDS}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> tuple[PanelRow, ...]:
    members = [(name_of(seed), json.dumps(FIELDS[seed]).encode()) for seed in SEEDS]
    return tuple(manifest_rows(archive_of(tmp_path_factory.mktemp("manifest") / "games.tar", members)))


def released() -> dict[str, bytes]:
    return {name_of(seed): json.dumps(FIELDS[seed]).encode() for seed in SEEDS}


def check(folder: Path, rows: tuple[PanelRow, ...]) -> DataReport:
    return compare_games(str(folder), read_games(folder, SPLITS), rows)


def kinds(report: DataReport) -> dict[str, str]:
    return {one.name: one.kind for one in report.differences}


# -- what does not matter ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "written",
    [
        lambda fields: json.dumps(fields, indent=3),
        lambda fields: json.dumps(dict(reversed(fields.items())), ensure_ascii=False),
        lambda fields: json.dumps({**fields, "pddl_problem": fields["pddl_problem"].replace("\n", "\r\n")}),
        lambda fields: json.dumps({**fields, "pddl_problem": "; a comment\n" + fields["pddl_problem"].upper()}),
        lambda fields: json.dumps({key: value for key, value in fields.items() if key != "walkthrough"}),
    ],
    ids=["indented", "order of keys", "line ends", "case and comments", "no walkthrough"],
)
def test_formatting_does_not_matter(
    written: Callable[[dict[str, Any]], str], rows: tuple[PanelRow, ...], tmp_path: Path
) -> None:
    write_games(tmp_path, {name_of(seed): written(FIELDS[seed]).encode() for seed in SEEDS})
    report = check(tmp_path, rows)
    assert not report.differences
    part = next(part for part in report.parts if part.part == "valid_seen")
    assert report.complete
    assert part.counts["same"] == len(SEEDS)


# -- every kind of difference --------------------------------------------------------------------------------------------
CHANGES: dict[str, tuple[str, Callable[[int], bytes | None]]] = {
    "same": ("same", lambda seed: json.dumps(FIELDS[seed]).encode()),
    "absent": ("missing", lambda _: None),
    "sentence": ("changed", lambda seed: json.dumps(fields_of(seed, sentence="tidy up")).encode()),
    "dialect": ("changed", lambda seed: json.dumps(fields_of(seed, dialect="put")).encode()),
    "both": ("changed", lambda seed: json.dumps(fields_of(seed, dialect="put", sentence="tidy up")).encode()),
    "house": ("changed", lambda seed: json.dumps(fields_of(seed + 1_000)).encode()),
    "empty": ("unusable", lambda _: b""),
    "not text": ("unusable", lambda _: b"\xff\xfe\x00" * 9),
    "deep": ("unusable", lambda _: b"[" * 100_000),
    "no fields": ("unusable", lambda _: b"{}"),
    "unsolvable": ("unusable", lambda seed: json.dumps({**FIELDS[seed], "solvable": False}).encode()),
    "too large": ("unusable", lambda _: b" " * 8_000_001),
    "other grammar": ("unusable", lambda seed: json.dumps({**FIELDS[seed], "grammar": "grammar :: 7"}).encode()),
}


@settings(max_examples=40)
@given(drawn=st.lists(st.sampled_from(sorted(CHANGES)), min_size=len(SEEDS), max_size=len(SEEDS)))
def test_every_game_is_reported_once_with_its_kind(
    drawn: list[str], rows: tuple[PanelRow, ...], tmp_path_factory: pytest.TempPathFactory
) -> None:
    games = {name_of(seed): CHANGES[change][1](seed) for seed, change in zip(SEEDS, drawn, strict=True)}
    present = [(name, data) for name, data in games.items() if data is not None]
    folder = write_games(tmp_path_factory.mktemp("games"), dict(present))
    (folder / "json_2.1.1" / "valid_seen").mkdir(parents=True, exist_ok=True)
    report = check(folder, rows)
    expected = {name_of(seed): CHANGES[change][0] for seed, change in zip(SEEDS, drawn, strict=True)}
    assert kinds(report) == {name: kind for name, kind in expected.items() if kind != "same"}
    counts = report.parts[-1].counts
    assert {kind: counts[kind] for kind in KINDS} == {kind: list(expected.values()).count(kind) for kind in KINDS}
    assert report.complete == (set(expected.values()) == {"same"})
    assert json.loads(json.dumps(report.to_json()))["complete"] == report.complete


@given(order=st.permutations(range(len(SEEDS))))
def test_the_report_does_not_depend_on_the_order_of_files(order: list[int], rows: tuple[PanelRow, ...]) -> None:
    found = [Item(row.split, row.locator["path"], row.task_id) for row in rows]
    found[0], found[1] = found[0]._replace(digest="x"), found[1]._replace(problem="broken")
    assert compare_games("games", [found[i] for i in order], rows) == compare_games("games", found, rows)


# -- hostile input -------------------------------------------------------------------------------------------------------
def test_damaged_files_are_reported_and_never_stop_the_check(rows: tuple[PanelRow, ...], tmp_path: Path) -> None:
    good = released()[name_of(3)]
    for number in range(60):
        folder = write_games(tmp_path, released() | {name_of(3): worse_file(good, np.random.default_rng([7, number]))})
        assert set(kinds(check(folder, rows))) <= {name_of(3)}


def test_what_is_no_regular_file_is_not_opened(rows: tuple[PanelRow, ...], tmp_path: Path) -> None:
    write_games(tmp_path, released())
    path = tmp_path / "json_2.1.1" / name_of(3)
    path.unlink()
    os.mkfifo(path)  # opening it would wait for ever
    loop = tmp_path / "json_2.1.1" / name_of(5)
    loop.unlink()
    loop.symlink_to(loop)
    assert kinds(check(tmp_path, rows)) == {name_of(3): "missing", name_of(5): "missing"}


def test_names_are_printed_without_control_characters(rows: tuple[PanelRow, ...], tmp_path: Path) -> None:
    name = "valid_seen/pick_and_place_simple-\x1b[2J-\n/trial/game.tw-pddl"
    report = check(write_games(tmp_path, released() | {name: released()[name_of(3)]}), rows)
    assert "\x1b" not in report.to_text() and report.differences[0].kind == "extra"


def test_what_is_not_a_folder_of_games_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="alfworld-download"):
        list(read_games(tmp_path / "nothing", SPLITS))
    with pytest.raises(ConfigError, match="alfworld-download"):
        list(read_games(tmp_path, SPLITS))


# -- the panel and the command -------------------------------------------------------------------------------------------
def test_a_panel_of_a_folder_in_other_words_is_an_error(tmp_path: Path) -> None:
    row = load_panel("alfworld", "released-v2").split("valid_unseen")[0]
    write_games(tmp_path, {row.locator["path"]: released()[name_of(3)]})
    env = ALFWorldEnv(panel="released-v2:valid_unseen", data_path=str(tmp_path))
    with pytest.raises(DataError, match="published as"):
        env.reset(options={"task_id": row.task_id})


def test_the_command_reports_and_its_exit_code_says_whether_all_is_there(
    rows: tuple[PanelRow, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("creditflow.train.commands.data.listed_games", lambda _: rows)
    folder = str(write_games(tmp_path / "data", released()))
    assert main(["data", "check", "alfworld", folder]) == 0
    assert "4 same" in capsys.readouterr().out
    (tmp_path / "data" / "json_2.1.1" / name_of(3)).unlink()
    out = str(tmp_path / "report.json")
    assert main(["data", "check", "alfworld", folder, "--json", "--out", out]) == 1
    report = json.loads(Path(out).read_text())
    assert report["differences"] == [{"part": "valid_seen", "kind": "missing", "name": name_of(3), "detail": ""}]


def test_the_command_refuses_wrong_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["data", "check", "alfwrld", str(tmp_path)])
    assert "did you mean 'alfworld'" in capsys.readouterr().err
    assert main(["data", "check", "alfworld", str(tmp_path), "--only", "valid_sen"]) == 2
    assert "did you mean 'valid_seen'" in capsys.readouterr().err
    assert main(["data", "check", "alfworld", str(tmp_path / "none")]) == 2
    assert "alfworld-download" in capsys.readouterr().err
