"""The environment: contract, arguments, rewards, goal conditions and reasons of rejected commands."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env
from helpers.shared_data import ROOT
from helpers.worlds.alfworld_kitchen import APPLE, DATA, KITCHEN, run_commands

from creditflow.envs import check_agent_env
from creditflow.envs.alfworld.env import ALFWorldEnv
from creditflow.envs.errors import ConfigError, EpisodeError, MissingExtraError
from creditflow.envs.tasks import load_panel


# -- the contract ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"panel": "standard-v3:valid", "observation": "augmented", "text_key": "graphgpo"},
        {"split": "valid_unseen", "task_types": ["look_at_obj_in_light"], "text_key": "rewardflow", "syntax": "put"},
        {"data_path": DATA, "split": "valid_seen", "text_key": "rewardflow_paper", "reward": "ten"},
        {"panel": "released-v1:test", "data_path": DATA},
        {"game": KITCHEN, "observation": "augmented"},
    ],
    ids=["default", "panel", "types", "folder", "released panel", "one game"],
)
def test_the_contract_holds_for_every_source_and_mode(options: dict) -> None:
    if options.get("panel") == "released-v1:test":  # the open data folder holds a part of the panel's games
        env = gym.make("creditflow/ALFWorld-v0", **options)
        held = {row.task_id for row in load_panel("alfworld", "released-v1").split("test")}
        ids = set(ALFWorldEnv(data_path=DATA, split="valid_unseen").tasks.task_ids()) & held
        for task_id in sorted(ids):
            assert env.reset(options={"task_id": task_id})[1]["task_id"] == task_id
        assert len(ids) > 10
        return
    env = gym.make("creditflow/ALFWorld-v0", **options)
    check_agent_env(env)
    check_env(gym.make("creditflow/ALFWorld-v0", **options).unwrapped, skip_render_check=True)


def test_the_native_backend_imports_no_engine() -> None:
    code = (
        "import sys, creditflow; creditflow.make('alfworld').reset(seed=0); "
        "assert not {'textworld', 'alfworld', 'fast_downward'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")})


@pytest.mark.skipif(importlib.util.find_spec("alfworld") is not None, reason="the real engine is installed")
def test_a_missing_engine_is_an_error_that_names_the_install_command() -> None:
    with pytest.raises(MissingExtraError, match=r"\[alfworld\]"):
        ALFWorldEnv(backend="textworld")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"observation": "raww"}, "did you mean 'raw'"),
        ({"text_key": "gigpo"}, "unknown text_key"),
        ({"syntax": "mov"}, "did you mean 'move'"),
        ({"reward": "dense"}, "unknown reward"),
        ({"backend": "textwordl"}, "did you mean 'textworld'"),
        ({"split": "test"}, "unknown split"),
        ({"task_types": ["pick_heat"]}, "unknown task type"),
        ({"task_types": "look_at_obj_in_light"}, "list of names"),
        ({"panel": "standard-v3:train", "split": "train"}, "leave split"),
        ({"game": KITCHEN, "data_path": DATA}, "leave panel, data_path"),
        ({"max_steps": 0}, "max_steps"),
        ({"panel": "standard-v4:train"}, "did you mean 'standard-v3'"),
        ({"split": "train", "panel": "standard-v3:train"}, "leave split and task_types out"),
    ],
)
def test_wrong_arguments_are_rejected_with_the_nearest_name(options: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ALFWorldEnv(**options)


# -- episodes ----------------------------------------------------------------------------------------------------------
def test_a_walkthrough_wins_and_is_rewarded_once() -> None:
    for reward, expected in (("sparse", 1.0), ("ten", 10.0)):
        env = ALFWorldEnv(reward=reward)
        env.reset(seed=11)
        plan = env.walkthrough()
        rewards = []
        for command in plan:
            _, step_reward, terminated, truncated, info = env.step(command)
            rewards.append(step_reward)
        assert (terminated, truncated, info["won"], info["score"]) == (True, False, True, 1.0)
        assert rewards == [0.0] * (len(plan) - 1) + [expected]
        assert info["goal_condition_success_rate"] == 1.0


def test_the_limit_truncates_and_never_terminates() -> None:
    env = ALFWorldEnv(max_steps=3)
    env.reset(seed=0)
    ends = [env.step("look")[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]
    with pytest.raises(EpisodeError):
        env.step("look")


def test_goal_conditions_are_counted_as_alfred_does() -> None:
    env = ALFWorldEnv(task_types=["pick_clean_then_place_in_recep"])
    env.reset(seed=3)
    rates = [env.step(command)[4]["goal_condition_success_rate"] for command in env.walkthrough()]
    assert sorted(set(rates)) == [0.0, 1 / 3, 1.0]
    env = ALFWorldEnv(task_types=["look_at_obj_in_light"])
    env.reset(seed=3)
    rates = [env.step(command)[4]["goal_condition_success_rate"] for command in env.walkthrough()]
    assert rates[-2:] == [0.5, 1.0]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("go to garage 1", "no receptacle of this name"),
        ("open fridge 1", "not at fridge 1"),
        ("take tomato 9 from fridge 1", "no object of this name"),
        ("put apple 3 in/on fridge 1", "'move OBJECT to RECEPTACLE'"),
        ("take apple 1 from sinkbasin 1", "not at sinkbasin 1"),
        ("examine apple 1", "object in your hand"),
        ("heat apple 1 with microwave 1", "not at microwave 1"),
        ("sing", "not a command"),
        ("slice apple 1 with knife 1", "knife"),
        ("", "empty"),
    ],
)
def test_the_reply_to_a_rejected_command_is_nothing_happens_and_info_has_the_reason(command: str, reason: str) -> None:
    env = ALFWorldEnv(game=KITCHEN)
    _, before = env.reset()
    observation, reward, terminated, _, info = env.step(command)
    assert (observation, reward, terminated) == ("Nothing happens.", 0.0, False)
    assert info["state_key"] == before["state_key"]
    assert not info["action_valid"]
    assert reason in info["invalid_reason"]


@pytest.mark.parametrize(
    ("start", "command", "reason"),
    [
        (("go to fridge 1",), "go to fridge 1", "already there"),
        (("go to fridge 1",), "take apple 3 from fridge 1", "fridge 1 is closed"),
        (("go to fridge 1",), "close fridge 1", "closed already"),
        (("go to fridge 1", "open fridge 1"), "open fridge 1", "open already"),
        (APPLE[:3], "take bowl 1 from fridge 1", "hand is full: you hold apple 3"),
        (APPLE[:4], "heat apple 3 with sinkbasin 1", "cannot be heated there"),
        (APPLE[:3], "slice apple 1 with apple 3", "only a knife"),
        (("go to sinkbasin 1",), "open sinkbasin 1", "cannot be opened"),
        (("go to sinkbasin 1",), "use apple 1", "cannot be switched on"),
        (("go to sinkbasin 1",), "clean apple 1 with sinkbasin 1", "do not hold"),
    ],
)
def test_the_reason_of_a_rejected_command_names_the_obstacle(start: tuple[str, ...], command: str, reason: str) -> None:
    env = ALFWorldEnv(game=KITCHEN)
    env.reset()
    run_commands(env, *start)
    assert reason in env.step(command)[4]["invalid_reason"]


def test_an_action_without_effect_is_valid_and_not_effective() -> None:
    env = ALFWorldEnv(game=KITCHEN)
    env.reset()
    run_commands(env, *APPLE)
    for command in ("clean apple 3 with sinkbasin 1", "look", "inventory", "help", "examine sinkbasin 1"):
        info = env.step(command)[4]
        assert (info["action_valid"], info["action_effective"]) == (True, False), command
