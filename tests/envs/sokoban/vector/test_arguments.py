"""Wrong arguments, actions, masks and calls of the vector environment are rejected with what was expected."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import creditflow
from creditflow.envs.errors import ConfigError, DataError, EpisodeError, UnknownTaskError
from creditflow.envs.sokoban.vector import SokobanVectorEnv

ROOM = "#######\n#  .  #\n# $ @ #\n#  $ .#\n#######"


@pytest.fixture
def envs():
    made = SokobanVectorEnv(3, level=ROOM, obs_mode="grid", action_mode="discrete", max_steps=4)
    made.reset(seed=0)
    return made


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"num_envs": 0}, "num_envs must be an integer from 1"),
        ({"num_envs": -1}, "num_envs must be an integer from 1"),
        ({"num_envs": 2.0}, "num_envs must be an integer from 1"),
        ({"num_envs": True}, "num_envs must be an integer from 1"),
        ({"num_envs": 10**9}, "num_envs must be an integer from 1"),
        ({"autoreset_mode": "SameSteps"}, "did you mean 'SameStep'"),
        ({"autoreset_mode": None}, "unknown autoreset_mode None"),
        ({"obs_mode": "grit"}, "did you mean 'grid'"),
        ({"n_actions": 5}, "must be 4 or 9"),
        ({"moves_per_turn": 2, "action_mode": "discrete"}, "needs action_mode='text'"),
        ({"moves_per_turn": 2}, "one move per step"),
        ({"moves_per_turn": 2, "max_moves": 4}, "one move per step"),
    ],
)
def test_wrong_arguments(kwargs, message):
    with pytest.raises(ConfigError, match=message):
        gym.make_vec("creditflow/Sokoban-v0", vectorization_mode="vector_entry_point", **kwargs)


@pytest.mark.parametrize(
    "actions",
    [
        [0, 1], [0, 1, 2, 3], [[0, 1, 2]], 0, None, "up", [0.0, 1.0, 2.0], [True, False, True], ["up", "up", "up"],
        [0, None, 1], [[0], [1, 2], [3]], np.zeros((3, 1), dtype=int), np.zeros(3), np.zeros(0, dtype=int),
    ],
    ids=repr,
)  # fmt: skip
def test_actions_of_the_wrong_shape_or_dtype(envs, actions):
    before = [envs.get_state(number) for number in range(3)]
    with pytest.raises(ConfigError, match=r"3 integers, one per environment: an integer array of shape \(3,\)"):
        envs.step(actions)
    assert [envs.get_state(number) for number in range(3)] == before


@pytest.mark.parametrize(
    "actions",
    ["up", ["up", "up"], None, 3, {"up", "down", "left"}, np.full((3, 1), "up")],
    ids=["text", "two", "None", "number", "set", "column"],
)
def test_text_actions_of_the_wrong_shape(actions):
    envs = SokobanVectorEnv(3, level=ROOM)
    envs.reset()
    with pytest.raises(ConfigError, match="list or tuple of 3 strings"):
        envs.step(actions)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint8, np.uint64])
def test_every_integer_dtype_is_read_and_numbers_outside_are_invalid_actions(envs, dtype):
    largest = int(np.iinfo(dtype).max)
    infos = envs.step(np.array([1, largest, 3], dtype=dtype))[4]
    assert infos["action_valid"].tolist() == [True, False, True]
    shown = largest if largest < 2**63 else "a value of type int"  # as the environment on its own says
    reason = f"expected an integer from 0 to 3, got {shown}"
    assert infos["invalid_reason"].tolist() == ["", reason, ""]


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        ([True, False, True], "NumPy array of bool"),
        (np.array([True, False]), r"shape \(3,\), got bool \(2,\)"),
        (np.array([1, 0, 1]), "got int64"),
        (np.array([[True, False, True]]), r"got bool \(1, 3\)"),
        (np.zeros(3, dtype=bool), "nothing to reset"),
    ],
)
def test_masks_of_the_wrong_length_or_dtype(envs, mask, message):
    with pytest.raises(ConfigError, match=message):
        envs.reset(options={"reset_mask": mask})


@pytest.mark.parametrize("seed", [[1, 2], [], "abc", 1.5, True])
def test_seeds_of_the_wrong_kind(envs, seed):
    with pytest.raises(ConfigError, match=r"one entry per environment \(3\)"):
        envs.reset(seed=seed)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"reset_masks": 1}, ConfigError, "did you mean 'reset_mask'"),
        ({"task_id": 3}, ConfigError, "task_id"),
        ({"task_id": "sokoban1:0"}, UnknownTaskError, "not among"),
        ({"task_ids": ["a"]}, ConfigError, "list of 3 ids"),
        ({"task_ids": "abc"}, ConfigError, "list of 3 ids"),
        ({"task_ids": ["a", "b", "c"], "task": ROOM}, ConfigError, "leave task_id and task out"),
        ({"task": 3}, DataError, "XSB string"),
        ({"task": "##########\n#@$.     #\n##########"}, ConfigError, "grid_shape"),
        ([], ConfigError, "mapping"),
    ],
)
def test_wrong_options_of_reset_change_nothing(envs, options, error, message):
    before = [envs.get_state(number) for number in range(3)]
    with pytest.raises(error, match=message):
        envs.reset(options=options)
    assert [envs.get_state(number) for number in range(3)] == before


def test_steps_without_an_episode_are_rejected():
    envs = SokobanVectorEnv(2, level=ROOM, autoreset_mode="Disabled", max_steps=1, action_mode="discrete")
    with pytest.raises(EpisodeError, match=r"2 of 2 environments have no episode"):
        envs.step([0, 0])
    with pytest.raises(EpisodeError, match="reset"):
        envs.get_state(0)
    with pytest.raises(EpisodeError, match="reset"):
        _ = envs.tasks
    envs.reset(options={"reset_mask": np.array([True, False])})
    with pytest.raises(EpisodeError, match=r"1 of 2 environments have no episode"):
        envs.step([0, 0])
    envs.reset()
    assert envs.step([0, 0])[3].all()
    with pytest.raises(EpisodeError, match=r"\[0, 1\] have ended"):
        envs.step([0, 0])


def test_an_environment_without_a_vector_environment_says_so():
    with pytest.raises(ConfigError, match="use vectorization_mode='sync'"):
        creditflow.make_vec("webshop", 2, vectorization_mode="vector_entry_point")
    with pytest.raises(ConfigError, match="vectorization_mode must be"):
        creditflow.make_vec("sokoban", 2, vectorization_mode="vectors")
    native = creditflow.make_vec("sokoban", 2, vectorization_mode="vector_entry_point")
    assert isinstance(native, SokobanVectorEnv)
