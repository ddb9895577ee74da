"""Sources of goals: numbers, contents, ids, splits and filters."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from helpers.worlds.webshop_small import small_stock

from creditflow.envs.errors import ConfigError, DataError, UnknownTaskError
from creditflow.envs.webshop.catalogue.stock import Stock
from creditflow.envs.webshop.env import WebShopEnv
from creditflow.envs.webshop.goals.goals import Goal
from creditflow.envs.webshop.goals.tasks import GoalTasks, goal_content, goal_from_content


def test_goals_can_be_given_by_number_and_by_content():
    env = WebShopEnv()
    _, by_number = env.reset(options={"task": {"goal": 7}})
    content = json.loads(json.dumps(dict(env.task.content)))
    _, by_content = env.reset(options={"task": content})
    assert by_number["task_id"] == by_content["task_id"]
    changed = {**content, "instruction": "Buy it.", "attributes": ["rich flavor"]}
    _, other = env.reset(options={"task": changed})
    assert (other["goal_index"], other["task_id"] == by_number["task_id"]) == (-1, False)


@pytest.mark.parametrize(
    "content",
    [
        {}, {"goal": -1}, {"goal": 10**9}, {"goal": "1"}, {"goal": True}, 5, {"asin": "x"},
        {"catalogue": "?", "asin": "x", "instruction": "", "attributes": [], "price_cap": 1, "options": []},
        {"catalogue": "?", "asin": 1, "instruction": "", "attributes": [], "price_cap": 1, "options": []},
        {"catalogue": "?", "asin": "x", "instruction": "", "attributes": "a", "price_cap": 1, "options": [["a"]]},
    ],
)  # fmt: skip
def test_malformed_task_contents_are_rejected(content):
    with pytest.raises(DataError, match="webshop"):
        WebShopEnv().reset(options={"task": content})


def test_an_unknown_task_id_is_rejected():
    with pytest.raises(UnknownTaskError, match="goals of this source"):
        WebShopEnv().reset(options={"task_id": "webshop1:00"})


def test_an_error_names_the_files_that_a_folder_lacks(tmp_path):
    with pytest.raises(DataError, match=r"items_shuffle_1000\.json"):
        WebShopEnv(data=str(tmp_path))


def test_a_panel_lists_its_goals_with_their_rows():
    tasks = WebShopEnv(panel="standard-v1:valid").goal_tasks
    assert len(tasks.rows) == len(tasks.numbers) == 206
    assert {row.split for row in tasks.rows} == {"valid"}
    row = tasks.rows[3]
    assert tasks.get(row.task_id).task_id == row.task_id
    assert tasks.numbers[3] == row.locator["goal"]


def test_split_names_follow_the_preset():
    stock = small_stock()
    stock = type(stock)(stock.catalogue, stock.goals * 30)
    sizes = {
        (preset, split): len(WebShopEnv(data=stock, preset=preset, split=split).goal_tasks.numbers)
        for preset, splits in (("verl_agent", ("val", "train")), ("upstream", ("test", "dev")))
        for split in splits
    }
    total = len(stock.goals)
    assert sizes == {
        ("verl_agent", "val"): 500, ("verl_agent", "train"): total - 500, ("upstream", "test"): 500,
        ("upstream", "dev"): total - 500,
    }  # fmt: skip
    with pytest.raises(ConfigError, match="train"):
        WebShopEnv(data=stock, preset="verl_agent", split="trian")


def test_unsolvable_goals_are_flagged():
    stock = small_stock()
    everything = WebShopEnv(data=stock)
    flags = [everything.reset(options={"task": {"goal": i}})[1]["solvable"] for i in range(len(stock.goals))]
    assert 0 < sum(flags) < len(flags)


def test_goals_are_one_task_if_and_only_if_nothing_but_the_weight_differs() -> None:
    goal = Goal("a", "b", "c", "d", "e", "f", ("g",), 1.0, (("h", "i"),), 1.0, True)
    other: dict[str, Any] = {
        "attributes": ("x",),
        "options": (("x", "y"),),
        "price_cap": 2.0,
        "weight": 2.0,
        "named_options": False,
    }
    for field in fields(Goal):
        changed = replace(goal, **{field.name: other.get(field.name, "x")})
        assert goal.same_task_as(changed) == (field.name == "weight"), field.name


def test_every_goal_of_the_shop_is_found_by_its_content_those_without_options_too() -> None:
    stock = WebShopEnv().stock
    contents = (json.loads(json.dumps(goal_content(goal, stock.catalogue.digest))) for goal in stock.goals)
    found = [stock.number_of(goal_from_content(content, stock)) for content in contents]
    assert [stock.goals[number].same_task_as(goal) for number, goal in zip(found, stock.goals, strict=True)] == [
        True
    ] * len(found)
    assert min(found) >= 0 and any(not goal.options and not goal.named_options for goal in stock.goals)


def test_a_task_that_the_source_made_starts_as_one_of_equal_content() -> None:
    env = WebShopEnv()
    for seed in (0, 1, 0, 2, 3, 0, 3, 1):
        started = env.reset(seed=seed)
        assert WebShopEnv().reset(options={"task": dict(env.task.content)}) == started


def test_of_equal_goals_every_source_names_the_first() -> None:
    stock = small_stock()
    doubled = Stock(stock.catalogue, [*stock.goals, *(replace(goal, weight=2.0) for goal in stock.goals)])
    count = len(stock.goals)
    tasks = GoalTasks(doubled, range(count, 2 * count))
    ids = tasks.task_ids()
    assert [tasks.number_of(task_id) for task_id in ids] == [doubled.number_of(goal) for goal in stock.goals]
    assert all(tasks.number_of(task_id) < count for task_id in ids)
