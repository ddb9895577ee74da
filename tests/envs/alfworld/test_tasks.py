"""Task sources: seeds, panels, folders of released games, single games."""

from __future__ import annotations

import json
from typing import Any

import pytest
from helpers.worlds.alfworld_kitchen import DATA, KITCHEN

from creditflow.envs.alfworld.env import ALFWorldEnv
from creditflow.envs.alfworld.generator import generate
from creditflow.envs.errors import UnknownTaskError
from creditflow.envs.tasks import load_panel


def test_a_seed_is_the_same_game_in_every_environment_of_a_group() -> None:
    ids = {ALFWorldEnv(data_path=DATA, split="train").reset(seed=4)[1]["task_id"] for _ in range(3)}
    assert len(ids) == 1


def test_a_panel_id_is_known_to_the_generator_on_any_worker() -> None:
    row = load_panel("alfworld", "standard-v3").split("test")[5]
    assert ALFWorldEnv().reset(options={"task_id": row.task_id})[1]["task_id"] == row.task_id


def test_an_unknown_id_is_rejected_with_a_message_that_names_the_alternatives() -> None:
    for env in (ALFWorldEnv(), ALFWorldEnv(panel="standard-v3:valid"), ALFWorldEnv(data_path=DATA)):
        with pytest.raises(UnknownTaskError, match="content"):
            env.reset(options={"task_id": "alfworld1:" + "0" * 32})


def test_a_game_can_be_given_as_path_fields_content_or_seed() -> None:
    env = ALFWorldEnv()
    with open(KITCHEN, encoding="utf-8") as file:  # noqa: PTH123 - the fields as a user would read them
        fields = json.load(file)
    ids = {env.reset(options={"task": given})[1]["task_id"] for given in (KITCHEN, fields)}
    ids.add(env.reset(options={"task": env.task.content})[1]["task_id"])
    assert len(ids) == 1
    made = env.reset(options={"task": {"seed": 7, "split": "train"}})[1]["task_id"]
    assert env.reset(options={"task": generate(7)})[1]["task_id"] == made


def test_task_types_limit_which_games_are_sampled() -> None:
    env = ALFWorldEnv(task_types=["pick_two_obj_and_place", "look_at_obj_in_light"])
    assert {env.reset(seed=s)[1]["task_type"] for s in range(20)} == {"pick_two_obj_and_place", "look_at_obj_in_light"}
    env = ALFWorldEnv(data_path=DATA, split="valid_seen", task_types=["pick_two_obj_and_place"])
    assert {env.reset(seed=s)[1]["task_type"] for s in range(10)} == {"pick_two_obj_and_place"}


def test_a_folder_is_listed_in_the_order_of_its_paths() -> None:
    env: Any = ALFWorldEnv(data_path=DATA, split="valid_unseen")
    paths = [path.as_posix() for path in env.tasks.paths]
    assert paths == sorted(paths, key=lambda path: path.split("/"))
    assert len(env.tasks.task_ids()) == len(paths)
    env.reset(seed=1)
    assert str(env.tasks.path_of(env.task.task_id)) in paths
