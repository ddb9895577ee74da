"""Every registered environment satisfies Gymnasium's contract and that of agent environments."""

from __future__ import annotations

import json
import warnings
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env
from helpers.worlds.any_env import SOURCES, made

import creditflow
from creditflow.envs import ENVIRONMENTS, check_agent_env, env_id
from creditflow.envs.check import EnvContractError
from creditflow.envs.errors import ConfigError, EpisodeError


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_gymnasiums_checker_passes_without_a_warning(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(creditflow.make(name).unwrapped, skip_render_check=True)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_agent_checker_passes(name):
    check_agent_env(creditflow.make(name))


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_ids_work_through_gymnasium_and_specs_round_trip(name):
    env = gym.make(f"creditflow:{env_id(name)}")
    assert env.spec is not None
    again = gym.make(EnvSpec.from_json(env.spec.to_json()))
    assert again.reset(seed=11) == env.reset(seed=11)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_step_before_reset_is_an_episode_error(name):
    with pytest.raises(EpisodeError, match="reset"):
        creditflow.make(name).unwrapped.step("anything")


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_infos_are_json(name):
    _, info = creditflow.make(name).reset(seed=0)
    assert json.loads(json.dumps(info)) == {k: list(v) if isinstance(v, tuple) else v for k, v in info.items()}


WILD: list[Any] = [
    None, 3.5, True, [], ["up"], {}, {1, "x"}, b"\xff\0x", object(), 1j, 10**5000, "", " ", "\0", "\ud800", "search[\ud800]", "search[" * 3000,
    "<search>" * 5000, "<tool_call>" * 5000, "{" * 20_000, "[" * 100_000, "a" * 200_000, "search: " + "a " * 50_000, "answer:", "١",
]  # fmt: skip


@pytest.mark.parametrize("source", SOURCES)
def test_an_action_of_any_type_is_played_or_rejected_with_a_short_reason_and_without_a_change(source):
    env = made(source)
    env.reset(seed=1)
    for action in WILD:
        before = env._keys()[0]
        _, _, terminated, truncated, info = env.step(action)
        if not info["action_valid"]:
            assert info["state_key"] == before
            assert 0 < len(info["invalid_reason"]) <= 4000
        if terminated or truncated:
            env.reset(seed=1)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_unknown_reset_options_are_rejected(name):
    env = creditflow.make(name)
    with pytest.raises(ConfigError, match="task_idd"):
        env.reset(options={"task_idd": "x"})


def test_the_agent_checker_names_the_violated_rule():
    class Broken(gym.ObservationWrapper):
        def observation(self, observation):
            return 7

    with pytest.raises(EnvContractError, match="observation 7"):
        check_agent_env(Broken(creditflow.make("sokoban")))
    with pytest.raises(EnvContractError, match="AgentEnv"):
        check_agent_env(gym.make("CartPole-v1"))


def test_an_unknown_name_suggests_the_nearest_one():
    with pytest.raises(ConfigError, match="did you mean 'sokoban'"):
        creditflow.make("sokobam")
