"""``creditflow/Sokoban-v0``: arguments, actions, rewards, limits, rendering."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env, data_equivalence

import creditflow
from creditflow.envs import check_agent_env
from creditflow.envs.errors import ConfigError, EpisodeError, LevelError
from creditflow.envs.sokoban import SokobanEnv

CORRIDOR = "#######\n#@ $ .#\n#######"
ROOM = "#######\n#  .  #\n# $ @ #\n#  $ .#\n#######"
OPTIONS = {
    "text": {},
    "grid": {"obs_mode": "grid", "action_mode": "discrete"},
    "planes": {"obs_mode": "planes", "action_mode": "discrete", "n_actions": 9},
    "rgb": {"obs_mode": "rgb", "action_mode": "discrete", "tile_size": 7, "render_mode": "rgb_array"},
    "rgb, ansi": {"obs_mode": "rgb", "render_mode": "ansi"},
    "everything": {"obs_mode": "dict", "action_mode": "discrete", "render_mode": "rgb_array"},
    "text and image": {"obs_mode": "dict", "obs_keys": ["text", "rgb"], "level": ROOM},
    "dict of a text": {"obs_mode": "dict", "obs_keys": ["text"], "symbols": "xsb"},
    "nine texts": {"n_actions": 9, "reward": "gym_sokoban", "render_mode": "ansi", "symbols": "xsb"},
    "several moves": {"moves_per_turn": 2, "panel": "small-v1:test", "render_mode": "ansi"},
    "coordinates": {"text_format": "coordinates", "render_mode": "ansi", "max_steps": 9},
    "planes in frames": {"obs_mode": "planes", "render_mode": "rgb_array", "level": ROOM},
    "one level": {"level": ROOM, "reward": "ten", "symbols": "ascii", "separator": ""},
    "generated": {"generator": {"height": 7, "width": 6, "boxes": 2, "min_length": 4}, "max_steps": 9},
    "valid split": {"panel": "standard-v1:valid", "grid_shape": [10, 12], "obs_mode": "grid"},
}


@pytest.fixture
def corridor():
    env = creditflow.make("sokoban", level=CORRIDOR)
    env.reset()
    return env


@pytest.mark.parametrize("kwargs", OPTIONS.values(), ids=OPTIONS)
def test_both_checkers_pass_without_a_warning(kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = creditflow.make("sokoban", **kwargs)
        check_env(env.unwrapped, skip_render_check="render_mode" not in kwargs)
        check_agent_env(env)


@pytest.mark.parametrize("kwargs", OPTIONS.values(), ids=OPTIONS)
def test_specs_round_trip_through_json(kwargs):
    env = creditflow.make("sokoban", **kwargs)
    assert env.spec is not None
    again = gym.make(EnvSpec.from_json(env.spec.to_json()))
    for seed in (0, 7):
        (obs, info), (obs_again, info_again) = env.reset(seed=seed), again.reset(seed=seed)
        assert data_equivalence(obs, obs_again)
        assert info == info_again


@pytest.mark.parametrize("text", ["up", " Up\n", "UP", "\tup "])
def test_actions_are_parsed_without_case_and_surrounding_space(corridor, text):
    assert corridor.step(text)[4]["action_valid"]


@pytest.mark.parametrize(
    "text", ["", "upper", "left, not up", "<action>up</action>", "up up", "push up", "u", "go to the upper left", "0"]
)
def test_texts_that_contain_an_action_are_not_parsed(corridor, text):
    info = corridor.step(text)[4]
    assert not info["action_parsed"]
    assert "up, down, left, right" in info["invalid_reason"]


def test_reasons_quote_at_most_a_short_ascii_part_of_the_action(corridor):
    for text in ("x" * 10_000, "\x1b[31m" * 50, "\U000e0001" * 99, " " * 10_000, "\ud800"):
        reason = corridor.unwrapped.step(text)[4]["invalid_reason"]
        assert len(reason) < 130
        assert reason.replace("…", "").isascii()


@pytest.mark.parametrize(
    "action", [-1, 4, 10**30, pytest.param(10**6000, id="huge"), True, np.True_, 1.0, "1", None, np.array([1, 2])]
)
def test_values_outside_the_discrete_space_are_rejected(action):
    env = SokobanEnv(level=CORRIDOR, action_mode="discrete")
    env.reset()
    info = env.step(action)[4]
    assert not info["action_parsed"]
    assert "0 to 3" in info["invalid_reason"]


@pytest.mark.parametrize("action", [3, np.int64(3), np.uint8(3), np.array(3)])
def test_every_kind_of_integer_is_an_action(action):
    env = SokobanEnv(level=CORRIDOR, action_mode="discrete")
    env.reset()
    assert env.step(action)[4]["player_moved"]


def test_a_bump_is_admissible_and_not_effective(corridor):
    _, reward, terminated, truncated, info = corridor.step("up")
    assert info["action_valid"]
    assert not info["action_effective"]
    assert (reward, terminated, truncated) == (0.0, False, False)


def test_no_operation_is_admissible_and_not_effective():
    env = creditflow.make("sokoban", level=CORRIDOR, n_actions=9)
    _, before = env.reset()
    info = env.step("no operation")[4]
    assert info["action_valid"]
    assert not info["action_effective"]
    assert info["state_key"] == before["state_key"]


def test_move_actions_do_not_push():
    env = creditflow.make("sokoban", level=CORRIDOR, n_actions=9)
    env.reset()
    assert env.step("move right")[4]["player_moved"]
    assert not env.step("move right")[4]["action_effective"]
    assert env.step("push right")[4]["moved_box"]


@pytest.mark.parametrize(
    ("preset", "rewards"), [("sparse", [0, 0, 1]), ("ten", [0, 0, 10]), ("gym_sokoban", [-0.1, -0.1, 10.9])]
)
def test_reward_presets(preset, rewards):
    env = creditflow.make("sokoban", level=CORRIDOR, reward=preset)
    env.reset()
    assert [env.step("right")[1] for _ in rewards] == pytest.approx(rewards, abs=1e-9)


def test_gym_sokobans_reward_penalizes_a_box_that_leaves_its_target_and_has_no_start_bonus():
    env = creditflow.make("sokoban", level="########\n#@ * $.#\n#      #\n########", reward="gym_sokoban")
    _, info = env.reset()
    assert info["boxes_on_target"] == 1
    assert env.step("right")[1] == pytest.approx(-0.1, abs=1e-9)
    _, reward, _, _, info = env.step("right")
    assert reward == pytest.approx(-1.1, abs=1e-9)
    assert info["boxes_on_target"] == 0


def test_a_push_from_target_to_target_has_only_the_step_reward():
    env = creditflow.make("sokoban", level="########\n#@*. $ #\n########", reward="gym_sokoban")
    env.reset()
    assert env.step("right")[1] == pytest.approx(-0.1, abs=1e-9)


def test_solving_with_the_last_step_terminates_and_does_not_truncate():
    env = creditflow.make("sokoban", level=CORRIDOR, max_steps=3)
    env.reset()
    outcomes = [env.step("right")[2:4] for _ in range(3)]
    assert outcomes == [(False, False), (False, False), (True, False)]
    with pytest.raises(EpisodeError, match="no episode"):
        env.step("right")


def test_default_limits_are_30_for_panels_and_120_otherwise():
    assert SokobanEnv().max_steps == 30
    assert SokobanEnv(panel="standard-v1:test").max_steps == 30
    assert SokobanEnv(level=ROOM).max_steps == 120
    assert SokobanEnv(generator={}).max_steps == 120


def test_the_observation_is_the_board_and_shows_the_target_under_the_player():
    env = creditflow.make("sokoban", level="######\n#@.$ #\n#  . #\n#  $ #\n######")
    obs, _ = env.reset()
    assert obs.split("\n")[1] == "# P O X _ #"
    assert env.step("right")[0].split("\n")[1] == "# _ S X _ #"


def test_state_keys_are_equal_exactly_for_equal_boards():
    env = creditflow.make("sokoban", level=ROOM)
    obs, info = env.reset()
    keys = {obs: info["state_key"]}
    rng = np.random.default_rng(0)
    for _ in range(100):
        obs, _, terminated, truncated, info = env.step(str(rng.choice(["up", "down", "left", "right"])))
        assert keys.setdefault(obs, info["state_key"]) == info["state_key"] == info["text_key"]
        if terminated or truncated:
            env.reset()
    assert len(set(keys.values())) == len(keys)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"panel": "standard-v1:tain"}, "did you mean 'train'"),
        ({"panel": "standart-v1"}, "did you mean 'standard-v1'"),
        ({"panel": 3}, "panel must be a string"),
        ({"level": ROOM, "panel": "standard-v1"}, "one of panel, levels, level or generator"),
        ({"generator": {"hight": 7}}, "did you mean 'height'"),
        ({"generator": {"height": 3}}, "height must be an integer from 5"),
        ({"generator": {"min_length": 9, "max_length": 8}}, "max_length must be an integer from 9"),
        ({"generator": 3}, "mapping of options"),
        ({"obs_mode": "txt"}, "did you mean 'text'"),
        ({"action_mode": "discret"}, "did you mean 'discrete'"),
        ({"n_actions": 5}, "must be 4 or 9"),
        ({"reward": "sparce"}, "did you mean 'sparse'"),
        ({"max_steps": 0}, "max_steps must be a positive integer"),
        ({"symbols": "unicod"}, "did you mean 'unicode'"),
        ({"separator": "ab"}, "separator"),
        ({"separator": "#"}, "also a symbol"),
        *(
            ({"tile_size": size}, "tile_size must be an integer from 4")
            for size in (0, -28, 257, 28.0, "28", None, True)
        ),
        ({"obs_mode": "dict", "obs_keys": ["text", "rbg"]}, "did you mean 'rgb'"),
        ({"obs_mode": "dict", "obs_keys": ["text", 7]}, "key of obs_keys"),
        ({"obs_mode": "dict", "obs_keys": ["text", []]}, "key of obs_keys"),
        ({"obs_mode": "dict", "obs_keys": ["rgb", "rgb"]}, "twice"),
        ({"obs_mode": "dict", "obs_keys": []}, "at least one"),
        ({"obs_mode": "dict", "obs_keys": "rgb"}, "must be a list"),
        ({"obs_mode": "rgb", "obs_keys": ["rgb"]}, "obs_mode='rgb'"),
        ({"obs_mode": "rgb", "grid_shape": [64, 64], "tile_size": 57}, "tile_size of at most 56"),
        ({"obs_mode": "dict", "grid_shape": [64, 64], "tile_size": 256}, "more than 12,845,056"),
        ({"render_mode": "rgb_array", "grid_shape": [64, 64], "tile_size": 57}, "tile_size of at most 56"),
        ({"grid_shape": [8]}, "grid_shape"),
    ],
)
def test_wrong_arguments_are_rejected_with_a_reason(kwargs, message):
    with pytest.raises(ConfigError, match=message):
        creditflow.make("sokoban", **kwargs)


def test_an_unknown_render_mode_is_rejected_with_the_known_ones():
    modes: list[Any] = ["rgb", 7, ["ansi"]]
    for mode in modes:
        with pytest.raises(ConfigError, match="rgb_array, ansi, got"):
            SokobanEnv(render_mode=mode)


def test_a_malformed_level_is_a_level_error():
    with pytest.raises(LevelError, match="no box"):
        creditflow.make("sokoban", level="####\n#@ #\n####")


def test_a_level_larger_than_the_array_observations_is_rejected():
    env = creditflow.make("sokoban", level=ROOM, obs_mode="grid")
    big = "##########\n#@$.     #\n##########"
    with pytest.raises(ConfigError, match="grid_shape"):
        env.reset(options={"task": big})
    obs, _ = creditflow.make("sokoban", level=ROOM, obs_mode="grid", grid_shape=(6, 12)).reset(options={"task": big})
    assert obs.shape == (6, 12)


def test_rendering_before_reset_is_an_error_and_without_a_mode_a_warning():
    env = SokobanEnv(level=ROOM, render_mode="ansi")
    with pytest.raises(EpisodeError, match="reset"):
        env.render()
    with pytest.raises(EpisodeError, match="reset"):
        env.get_state()
    silent = SokobanEnv(level=ROOM)
    silent.reset()
    with pytest.warns(UserWarning, match="render_mode"):
        assert silent.render() is None


def test_action_from_text_accepts_only_actions():
    env = SokobanEnv(n_actions=9, action_mode="discrete")
    assert env.action_from_text("push up") == 1
    with pytest.raises(ConfigError, match="not an action"):
        env.action_from_text("up")
