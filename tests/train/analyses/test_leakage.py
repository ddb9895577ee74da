"""Validation tasks that were trained on are found by content, whatever the logs call them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.worlds.webshop_small import small_stock

from creditflow.envs.errors import ConfigError
from creditflow.envs.tasks import Panel, PanelRow, load_panel
from creditflow.envs.webshop.goals.goals import cap_words
from creditflow.envs.webshop.goals.tasks import goal_content, listed_locator
from creditflow.train.analyses import leakage
from creditflow.train.analyses.leakage import overlap
from creditflow.train.cli import main
from creditflow.wrappers.records.jsonl import write_jsonl
from creditflow.wrappers.trajectory import Group, Trajectory, Turn


def of_goal(goal, name):
    """A group of one rollout of another library's log, which names its tasks as it likes."""
    turn = Turn("a", "buy", "b", observation=f"Instruction: {goal}")
    return Group((Trajectory("t", name, name, (turn,), True, 1.0, "success", "b"),), {"goal": goal})


def log_of(path, goals, prefix):
    write_jsonl(path, [of_goal(goal, f"{prefix}{i}") for i, goal in enumerate(goals)])
    return str(path)


def test_equal_goals_are_one_task_whatever_their_names(tmp_path):
    train = log_of(tmp_path / "train.jsonl", ["red shoe", "blue hat", "blue hat"], "worker3-")
    valid = log_of(tmp_path / "valid.jsonl", ["blue hat", "green tie"], "worker0-")
    assert str(overlap(train, valid)) == "1 of your 2 validation tasks were trained on"
    assert overlap(valid, train) == (1, 2)  # two different goals were trained on


def test_without_a_task_the_first_observation_is_its_content(tmp_path):
    groups = [of_goal("red shoe", "x"), of_goal("red shoe", "y")]
    for path, group in zip((tmp_path / "a.jsonl", tmp_path / "b.jsonl"), groups, strict=True):
        write_jsonl(path, [replace(group, task={})])
    assert overlap(str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")) == (1, 1)


def test_splits_of_an_embedded_panel_share_no_task_and_a_split_shares_all_with_itself():
    valid = {row.task_id for row in load_panel("webshop", "small-synthetic-v1").rows if row.split == "dev"}
    panel = "webshop/small-synthetic-v1:{}".format
    assert overlap(panel("train"), panel("dev")) == (0, len(valid))
    assert overlap(panel("dev"), panel("dev")) == (len(valid), len(valid))


def test_a_goal_with_another_price_limit_is_the_same_task(tmp_path):
    """Workers with other seeds sample other limits."""
    train = log_of(
        tmp_path / "train.jsonl", ["red shoe, and price lower than 40.00 dollars", "red shoe 40.00 dollars"], "a"
    )
    valid = log_of(
        tmp_path / "valid.jsonl", ["red shoe, and price lower than 50.00 dollars", "red shoe 50.00 dollars"], "b"
    )
    assert overlap(train, valid) == (1, 2)


def test_a_log_of_goals_is_compared_with_a_panel_that_lists_their_wishes_or_ids(tmp_path, monkeypatch):
    stock = small_stock()
    goal = replace(stock.goals[0], instruction=stock.goals[0].instruction + cap_words(30.0), price_cap=30.0)
    dearer = replace(goal, instruction=goal.instruction.replace("30.00", "40.00"), price_cap=40.0)
    group = replace(of_goal("", "webshop1:" + "0" * 32), task=goal_content(dearer, "of another seed"))
    write_jsonl(tmp_path / "train.jsonl", [group])
    rows = (
        PanelRow("webshop1:" + "1" * 32, "dev", listed_locator(goal), {}),
        PanelRow("webshop1:" + "0" * 32, "ids", {"goal": 0}, {}),
    )
    monkeypatch.setattr(leakage, "load_panel", lambda env, name: Panel(f"{env}/{name}", rows))
    for split in ("dev", "ids"):
        assert overlap(str(tmp_path / "train.jsonl"), f"webshop/small-v1:{split}") == (1, 1)
        assert overlap(f"webshop/small-v1:{split}", str(tmp_path / "train.jsonl")) == (1, 1)


def test_what_is_neither_a_log_nor_a_panel_is_an_error():
    with pytest.raises(ConfigError, match="expected a log, or a panel"):
        overlap("nowhere.jsonl", "webshop/small-synthetic-v1:dev")


def test_the_audit_says_it(tmp_path, capsys):
    train = log_of(tmp_path / "train.jsonl", ["red shoe", "blue hat"], "a")
    valid = log_of(tmp_path / "valid.jsonl", ["blue hat"], "b")
    assert main(["audit", train, "--validation", valid]) == 0
    assert capsys.readouterr().out.startswith("1 of your 1 validation tasks were trained on.\n")
