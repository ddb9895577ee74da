"""What a foreign environment returns is checked, and becomes plain numbers and truth values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.worlds.mission_room import Room

from creditflow.envs.errors import DataError
from creditflow.envs.foreign.env import ForeignEnv


class Returns(Room):
    """Returns what it is told."""

    def __init__(self, *, reset=None, step=None) -> None:
        self.given = {"reset": reset, "step": step}

    def reset(self, *, seed=None, options=None):
        usual = super().reset(seed=seed, options=options)
        return usual if self.given["reset"] is None else self.given["reset"]

    def step(self, action):
        return self.given["step"]


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (7, r"reset must return \(observation, info\), got int"),
        ((1, {}, {}), "got a tuple of 3; an environment of gym before 0.26"),
        ([1, {}], "got list"),
        ((1, None), "info must be a mapping, got None"),
    ],
)
def test_a_reset_that_returns_something_else_is_named(result, message):
    with pytest.raises(DataError, match=rf"^Returns: .*{message}"):
        ForeignEnv(Returns(reset=result), success="reported").reset(seed=0)


NO_REWARDS: list[Any] = [np.nan, -np.inf, "1", None, [1, [2]], [1, 2], 1j, {}, 10**400]


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ((1, 0.0, True, {}), r"step must return \(observation, reward, terminated, truncated, info\), got a tuple of 4"),
        (None, "got NoneType"),
        *[((1, reward, True, False, {}), "a reward must be a finite number") for reward in NO_REWARDS],
        ((1, 0.0, "False", False, {}), "terminated must be True or False, got 'False'"),
        ((1, 0.0, False, None, {}), "truncated must be True or False, got None"),
        ((1, 0.0, np.array([True, False]), False, {}), "terminated must be"),
        ((1, 0.0, True, False, None), "info must be a mapping"),
    ],
)  # fmt: skip
def test_a_step_that_returns_something_else_is_named(result, message):
    env = ForeignEnv(Returns(step=result), success="reported")
    env.reset(seed=0)
    with pytest.raises(DataError, match=rf"^Returns: .*{message}"):
        env.step(0)


@pytest.mark.parametrize(
    ("reward", "ended"), [(2, np.True_), (np.float32(2), np.array([True])), (np.array([2]), 1), (np.float16(2), True)]
)
def test_numbers_and_truth_values_of_numpy_become_plain_ones(reward, ended):
    env = ForeignEnv(Returns(step=(1, reward, ended, np.False_, {"success": np.float64(1.0)})), success="reported")
    env.reset(seed=0)
    _, value, terminated, truncated, info = env.step(0)
    assert (value, type(value), terminated, truncated, info["success"]) == (2.0, float, True, False, True)


@pytest.mark.parametrize("judgement", ["yes", None, 2, float("nan"), [], np.array([1, 0])])
def test_a_rule_of_success_that_gives_no_truth_value_is_refused(judgement):
    env = ForeignEnv(Room(), success=lambda *_: judgement)
    env.reset(options={"task": {"seed": 0, "options": {"goal": 1}}})
    with pytest.raises(DataError, match="must return True or False, got"):
        env.step(1)
