"""Environments by name: an argument that one does not take is an error that names the nearest one."""

from __future__ import annotations

import gymnasium as gym
import pytest

import creditflow
from creditflow.envs.errors import ConfigError
from creditflow.envs.registration import ENVIRONMENTS


@pytest.mark.parametrize("name", sorted(ENVIRONMENTS))
def test_an_argument_that_an_environment_does_not_take_is_an_error_with_the_nearest_one(name: str) -> None:
    with pytest.raises(
        ConfigError, match=r"unknown argument of the environment '\w+': 'max_step'; did you mean 'max_steps'"
    ):
        creditflow.make(name, max_step=3)


def test_gymnasiums_own_arguments_are_taken_too() -> None:
    env = creditflow.make("sokoban", level="#####\n#@$.#\n#####", disable_env_checker=True)
    assert isinstance(env, gym.Env)
