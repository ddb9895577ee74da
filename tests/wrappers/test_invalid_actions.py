"""InvalidActions: each policy applies to invalid actions only."""

from __future__ import annotations

import itertools

import gymnasium as gym
import pytest

import creditflow
from creditflow.envs.errors import ConfigError, EpisodeError
from creditflow.wrappers import DenseReward, InvalidActions

LEVEL = "######\n#@$ .#\n######"


def make(policy, max_steps=10, **kwargs):
    env = InvalidActions(
        creditflow.make("sokoban", level=LEVEL, max_steps=max_steps, reward="gym_sokoban"), policy, **kwargs
    )
    env.reset(seed=0)
    return env


def test_keep_keeps_the_environments_reward_and_counts_the_step():
    _, reward, terminated, truncated, info = make("keep").step("jump")
    assert (reward, terminated, truncated, info["elapsed_steps"]) == (-0.1, False, False, 1)


def test_penalise_subtracts_only_for_invalid_actions():
    env = make("penalise", penalty=0.25)
    assert env.step("jump")[1] == pytest.approx(-0.35)
    assert env.step("left")[1] == pytest.approx(-0.1)


def test_retry_takes_back_a_limited_number_of_steps_in_a_row():
    env = make("retry", retries=2)
    steps = [env.step("jump") for _ in range(3)]
    assert [s[4]["elapsed_steps"] for s in steps] == [0, 0, 1]
    assert [s[1] for s in steps] == [0.0, 0.0, -0.1]
    assert [s[4]["action_valid"] for s in steps] == [False] * 3
    env.step("left")
    assert env.step("jump")[4]["elapsed_steps"] == 2  # a valid action restores the retries


def test_retry_at_the_limit_does_not_end_the_episode():
    env = make("retry", max_steps=1, retries=1)
    _, _, terminated, truncated, info = env.step("jump")
    assert not terminated
    assert not truncated
    assert info["admissible_actions"]
    assert env.step("left")[3]


def test_terminate_ends_the_episode_as_a_format_error():
    env = make("terminate")
    _, _, terminated, truncated, info = env.step("jump")
    assert (terminated, truncated, info["stop_reason"], info["success"]) == (True, False, "format", False)
    assert info["admissible_actions"] == ()
    with pytest.raises(EpisodeError, match="ended this episode"):
        env.step("left")
    env.reset(seed=0)
    env.step("left")


@pytest.mark.parametrize("policy", ["keep", "penalise", "retry", "terminate"])
def test_info_has_the_same_keys_and_types_always(policy):
    env = InvalidActions(creditflow.make("sokoban", level=LEVEL), policy)
    _, first = env.reset(seed=0)
    for action in ("left", "jump"):
        info = env.step(action)[4]
        assert {k: type(v) for k, v in info.items()} == {k: type(v) for k, v in first.items()}


def test_wrong_arguments_are_rejected():
    env = creditflow.make("sokoban", level=LEVEL)
    with pytest.raises(ConfigError, match="did you mean 'penalise'"):
        InvalidActions(env, "penalize")  # type: ignore[arg-type]  # the misspelling is the test
    with pytest.raises(ConfigError, match="penalty"):
        InvalidActions(env, "penalise", penalty=-1.0)


@pytest.mark.parametrize("inside", ["dense", "observation"])
def test_an_action_that_was_taken_back_has_the_info_of_the_wrappers_inside(inside: str) -> None:
    env = creditflow.make("sokoban", level=LEVEL, max_steps=10)
    if inside == "dense":
        env = DenseReward(env, "graphgpo", gamma=0.9)
    if inside == "observation":
        env = gym.wrappers.TransformObservation(env, str.upper, env.observation_space)
    env = InvalidActions(env, "retry", retries=2)
    obs, start = env.reset(seed=0)
    seen, reward, _, _, info = env.step("jump")
    assert (seen, reward, info.keys() - start.keys(), start.keys() - info.keys()) == (obs, 0.0, set(), set())
    assert info.get("shaping", 0.0) == 0.0
    for name in ("text_key", "state_key", "potential"):
        assert info.get(name) == start.get(name), name


@pytest.mark.parametrize("retries", [1, 3])
def test_shaping_inside_retries_still_sums_to_the_first_potential(retries: int) -> None:
    env = InvalidActions(DenseReward(creditflow.make("sokoban", level=LEVEL, max_steps=6), "graphgpo", gamma=0.9), "retry", retries=retries)  # fmt: skip
    for episode in range(5):
        _, info = env.reset(seed=episode)
        total, steps, over = info["potential"], 0, False
        for action in itertools.cycle(["jump", "left", "jump", "right", "jump", "left"]):
            before = info["elapsed_steps"]
            _, _, terminated, truncated, info = env.step(action)
            total, over = total + 0.9**steps * info["shaping"], terminated or truncated
            steps += info["elapsed_steps"] - before  # an action that was taken back is no step
            if over:
                break
        assert total == pytest.approx(0.0, abs=1e-12)
