"""Sources of goals: numbers, contents, ids, splits and filters."""

from __future__ import annotations

import json

import pytest
from helpers.worlds.webshop_small import small_stock

from creditflow.envs.errors import ConfigError, DataError, UnknownTaskError
from creditflow.envs.webshop.env import WebShopEnv


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


def test_unsolvable_goals_are_flagged_and_left_out_on_request_only():
    stock = small_stock()
    everything = WebShopEnv(data=stock)
    solvable = WebShopEnv(data=stock, solvable_only=True)
    flags = [everything.reset(options={"task": {"goal": i}})[1]["solvable"] for i in range(len(stock.goals))]
    assert 0 < sum(flags) < len(flags)
    assert list(solvable.goal_tasks.numbers) == [i for i, flag in enumerate(flags) if flag]
