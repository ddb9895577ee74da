"""Every released game parses, its published solution succeeds, and the oracle finds one of equal length."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from helpers.panels.alfworld import manifest_rows, released_rows
from helpers.processes.child_process import outputs_of
from helpers.shared_data import shared_file
from helpers.worlds.game_files import iter_archive, write_games

from creditflow.envs.alfworld.env import ALFWorldEnv
from creditflow.envs.alfworld.game import Game
from creditflow.envs.alfworld.game_files.check import compare_games, read_games
from creditflow.envs.alfworld.game_files.content import game_task
from creditflow.envs.alfworld.game_files.reading import content_from_fields
from creditflow.envs.alfworld.oracle import ALFWorldOracle
from creditflow.envs.alfworld.rules import act, admissible_commands
from creditflow.envs.alfworld.world import World
from creditflow.envs.tasks import load_panel
from creditflow.train.cli import main

ARCHIVE = shared_file("data/alfworld/alfworld_games_full.tar.xz")
FOLDER = shared_file("data/alfworld/json_2.1.1").parent
PANEL = load_panel("alfworld", "released-v2")
GAMES, SAMPLE, ENOUGH = 3_807, 200, 800


@pytest.fixture(scope="module")
def games() -> dict[str, bytes]:
    return {name: data for name, data in iter_archive(ARCHIVE) if name.endswith("game.tw-pddl")}


def solve(name: str, data: bytes) -> tuple[int, float, bool]:
    """Run the walkthrough; return its length, the oracle's distance, and whether that is exact."""
    fields = json.loads(data)
    game = Game(content_from_fields(fields, name))
    answer = ALFWorldOracle().world_distance(World(game))
    world = World(game)
    for command in fields["walkthrough"]:
        assert not world.won(), name
        act(world, admissible_commands(world).by_text[command])
    assert world.won(), name
    return len(fields["walkthrough"]), answer.distance, answer.exact


def test_a_fixed_sample_of_released_games_parses_is_solved_and_has_the_published_length(
    games: dict[str, bytes],
) -> None:
    names = sorted(games)
    order = np.argsort(np.random.PCG64(7).random_raw(len(names)), kind="stable")
    for name in (names[i] for i in order[:SAMPLE]):
        shipped, distance, exact = solve(name, games[name])
        assert (distance, exact) == (shipped, True), name


def test_the_panel_of_released_games_names_their_content(games: dict[str, bytes]) -> None:
    rows = load_panel("alfworld", "released-v1").rows
    for row in rows[::25]:
        path = row.locator["path"]
        assert game_task(content_from_fields(json.loads(games[path]), path)).task_id == row.task_id


@pytest.mark.slow
def test_the_archive_is_as_the_manifest_says(
    games: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "check", "alfworld", str(write_games(tmp_path, games)), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [(part["part"], part["counts"]["same"]) for part in report["parts"]] == [
        ("train", 3_547), ("valid_seen", 134), ("valid_unseen", 126),
    ]  # fmt: skip
    assert report["differences"] == []  # 20 games of the release are neither listed nor in the archive


def test_the_open_folder_holds_a_part_of_every_split() -> None:
    report = compare_games("folder", read_games(FOLDER, ("train", "valid_seen", "valid_unseen")), PANEL.rows)
    assert [part.counts["same"] for part in report.parts] == [18, 24, 18]
    assert {one.kind for one in report.differences} == {"missing"}


def test_tasks_of_the_panel_are_those_of_the_folder() -> None:
    """The same id names the same house through the panel and through the folder's own list."""
    of_folder = ALFWorldEnv(data_path=str(FOLDER), split="valid_unseen")
    of_panel = ALFWorldEnv(data_path=str(FOLDER), panel="released-v2:valid_unseen")
    for task_id in of_folder.tasks.task_ids():
        first, second = (env.reset(options={"task_id": task_id}) for env in (of_folder, of_panel))
        assert (first[0], first[1]["state_key"]) == (second[0], second[1]["state_key"])


CHILD = """
import hashlib, json, sys
from creditflow.envs.alfworld.env import ALFWorldEnv
env, seen = ALFWorldEnv(panel="released-v2:valid_unseen", data_path=sys.argv[1]), {}
for task_id in json.loads(sys.argv[2]):
    first = env.reset(options={"task_id": task_id})
    seen[task_id] = repr((first, env.step(first[1]["admissible_actions"][0])))
print(hashlib.sha256(json.dumps(sorted(seen.items())).encode()).hexdigest())
"""


def test_an_id_is_the_same_game_in_every_process_order_and_copy(tmp_path: Path) -> None:
    games = FOLDER / "json_2.1.1"
    there = [row.task_id for row in PANEL.split("valid_unseen") if (games / row.locator["path"]).is_file()]
    assert len(there) == 18
    for path in sorted(games.glob("valid_unseen/*/*/game.tw-pddl"), reverse=True):
        file = tmp_path / path.relative_to(FOLDER)
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(json.loads(path.read_text()), indent=1, sort_keys=True))
    cases = ((FOLDER, there), (FOLDER, there[::-1]), (tmp_path, there))
    assert len(outputs_of(CHILD, ([str(folder), json.dumps(ids)] for folder, ids in cases))) == 1


def test_known_ids_are_known_games() -> None:
    """The first listed game of every split, by path."""
    firsts = {row.split: row for row in reversed(PANEL.rows)}
    assert {split: row.task_id for split, row in firsts.items()} == {
        "train": "alfworld1:88a7eab7b89dc53b57cd483eeb1e9823",
        "valid_seen": "alfworld1:6072840597de19fcb82de5b5334aeac1",
        "valid_unseen": "alfworld1:79a39c68d97fccd37d14e8ca312a083b",
    }


@pytest.mark.slow
def test_the_manifest_is_reproducible() -> None:
    assert tuple(manifest_rows(ARCHIVE)) == PANEL.rows


@pytest.mark.slow
def test_all_released_games_parse_are_solved_and_have_the_published_length(games: dict[str, bytes]) -> None:
    assert len(games) >= GAMES
    solved = {name: solve(name, data) for name, data in games.items()}
    assert {name: row for name, row in solved.items() if row != (row[0], row[0], True)} == {}


@pytest.mark.slow
def test_the_panel_of_released_games_is_reproducible() -> None:
    assert tuple(released_rows(ARCHIVE)) == load_panel("alfworld", "released-v1").rows
