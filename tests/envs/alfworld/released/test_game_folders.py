"""Folders of released games: paths, ids and files that are no games."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from creditflow.envs.alfworld import tasks as tasks_module
from creditflow.envs.alfworld.env import ALFWorldEnv
from creditflow.envs.alfworld.game import Game
from creditflow.envs.alfworld.game_files import folder as folder_module
from creditflow.envs.alfworld.game_files.export import game_fields
from creditflow.envs.alfworld.game_files.folder import find_root, game_paths
from creditflow.envs.alfworld.generator import generate
from creditflow.envs.alfworld.tasks import FolderTasks
from creditflow.envs.errors import ConfigError, DataError, UnknownTaskError

SCENE = "valid_seen/pick_and_place_simple-Mug-None-Desk-1/trial_1/game.tw-pddl"


# -- folders ---------------------------------------------------------------------------------------------------------
def test_a_missing_folder_is_an_error_that_names_the_download_command() -> None:
    with pytest.raises(ConfigError, match=r"not a folder.*alfworld-download"):
        ALFWorldEnv(data_path="/no/such/folder")


@pytest.mark.parametrize("made", ["", "json_2.1.1", "json_2.1.1/train", "json_2.1.1/train/movable-x/trial"])
def test_an_empty_folder_is_an_error_that_names_the_download_command(tmp_path: Path, made: str) -> None:
    (tmp_path / made).mkdir(parents=True, exist_ok=True)
    with pytest.raises(ConfigError, match="alfworld-download"):
        ALFWorldEnv(data_path=str(tmp_path))


def test_data_path_expands_variables_and_the_variable_alone_is_never_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path / "nothing"))
    ALFWorldEnv().reset(seed=0)
    with pytest.raises(ConfigError, match="nothing"):
        ALFWorldEnv(data_path="$ALFWORLD_DATA")


def test_more_games_than_the_limit_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "MAX_GAMES", 3)
    for number in range(5):
        trial = tmp_path / "train" / f"pick_and_place_simple-Mug-None-Desk-{number}" / "trial"
        trial.mkdir(parents=True)
        (trial / "game.tw-pddl").write_text("{}")
    with pytest.raises(DataError, match="more than 3 games"):
        ALFWorldEnv(data_path=str(tmp_path))


def test_unsupported_tasks_are_skipped_and_traj_data_names_the_type_of_oddly_named_folders(tmp_path: Path) -> None:
    for name in (
        "pick_and_place_with_movable_recep-A-B-C-1",
        "look_at_obj_in_light-AppleSliced-None-DeskLamp-1",
        "odd",
    ):
        trial = tmp_path / "train" / name / "trial"
        trial.mkdir(parents=True)
        (trial / "game.tw-pddl").write_text(json.dumps(game_fields(Game(generate(3)))))
        (trial / "traj_data.json").write_text(json.dumps({"task_type": "pick_two_obj_and_place"}))
    env = ALFWorldEnv(data_path=str(tmp_path), task_types=["pick_two_obj_and_place"])
    assert [path.parent.parent.name for path in env.tasks.paths] == ["odd"]  # type: ignore[attr-defined]  # a FolderTasks


def test_games_whose_files_declare_them_unsolvable_are_skipped(tmp_path: Path) -> None:
    for number in range(4):
        trial = tmp_path / "train" / f"pick_and_place_simple-Mug-None-Desk-{number}" / "trial"
        trial.mkdir(parents=True)
        game = {**game_fields(Game(generate(number))), "solvable": number == 2}
        (trial / "game.tw-pddl").write_text(json.dumps(game))
    env = ALFWorldEnv(data_path=str(tmp_path))
    assert {env.reset(seed=seed)[1]["task_id"] for seed in range(8)} == set(env.tasks.task_ids())
    assert len(env.tasks.task_ids()) == 1


def test_of_files_with_equal_content_the_first_one_names_the_task_whichever_was_parsed_first(tmp_path: Path) -> None:
    for number, seed in enumerate((0, 1, 0)):
        trial = tmp_path / "train" / f"pick_and_place_simple-Mug-None-Desk-{number}" / "trial"
        trial.mkdir(parents=True)
        (trial / "game.tw-pddl").write_text(json.dumps(game_fields(Game(generate(seed)))))
    paths = game_paths(find_root(str(tmp_path)), "train")
    forwards, backwards = FolderTasks(tmp_path, paths), FolderTasks(tmp_path, paths)
    for index in (2, 1, 0):
        backwards._task(index)
    assert forwards.task_ids() == backwards.task_ids()
    assert [backwards.path_of(task_id) for task_id in backwards.task_ids()] == list(paths[:2])


def test_a_split_is_parsed_once_whatever_its_files_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal and unsolvable games leave fewer ids than files, and more games than the cache holds are parsed again."""
    parsed: list[Path] = []

    def read(path: Path) -> Any:
        parsed.append(path)
        return json.loads(path.read_text())

    monkeypatch.setattr(tasks_module, "PARSED", 1)
    monkeypatch.setattr(tasks_module, "fields_from_file", read)
    for number, seed in enumerate((0, 1, 0, 2)):
        trial = tmp_path / "train" / f"pick_and_place_simple-Mug-None-Desk-{number}" / "trial"
        trial.mkdir(parents=True)
        game = {**game_fields(Game(generate(seed))), "solvable": seed != 2}
        (trial / "game.tw-pddl").write_text(json.dumps(game))
    source = FolderTasks(tmp_path, game_paths(find_root(str(tmp_path)), "train"))
    assert len(source.task_ids()) == 2
    assert len(parsed) == 4
    assert source.task_ids() == source.task_ids()
    with pytest.raises(UnknownTaskError):
        source.get("unknown")
    assert len(parsed) == 4


def test_a_broken_file_stays_an_error_when_the_split_is_listed_again(tmp_path: Path) -> None:
    trial = tmp_path / "train" / "pick_and_place_simple-Mug-None-Desk-1" / "trial"
    trial.mkdir(parents=True)
    (trial / "game.tw-pddl").write_text("{}")
    source = FolderTasks(tmp_path, game_paths(find_root(str(tmp_path)), "train"))
    for _ in range(2):
        with pytest.raises(DataError):
            source.task_ids()
