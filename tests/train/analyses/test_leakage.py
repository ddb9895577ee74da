"""Validation tasks that were trained on are found by content, whatever the logs call them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from creditflow.envs.errors import ConfigError
from creditflow.envs.tasks import load_panel
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


def test_what_is_neither_a_log_nor_a_panel_is_an_error():
    with pytest.raises(ConfigError, match="give a log, or a panel"):
        overlap("nowhere.jsonl", "webshop/small-synthetic-v1:dev")


def test_both_commands_say_it(tmp_path, capsys):
    train = log_of(tmp_path / "train.jsonl", ["red shoe", "blue hat"], "a")
    valid = log_of(tmp_path / "valid.jsonl", ["blue hat"], "b")
    assert main(["audit", train, "--validation", valid]) == 0
    assert capsys.readouterr().out.startswith("1 of your 1 validation tasks were trained on.\n")
    assert main(["data", "check", "tasks", train, "--against", valid]) == 1
    assert capsys.readouterr().out == "1 of your 1 validation tasks were trained on.\n"
    assert main(["data", "check", "tasks", valid, "--against", "webshop/small-synthetic-v1:dev"]) == 0
    assert main(["data", "check", "tasks", valid]) == 2
