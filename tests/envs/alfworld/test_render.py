"""Observation modes, text keys and state keys."""

from __future__ import annotations

import numpy as np
from helpers.worlds.alfworld_kitchen import APPLE, KITCHEN, SHARED_LOCATION, run_commands
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.alfworld.env import ALFWorldEnv


def test_augmented_observations_show_location_held_object_properties_and_moves_and_take_no_step() -> None:
    env = ALFWorldEnv(game=KITCHEN, observation="augmented")
    env.reset()
    run_commands(env, *APPLE)
    observation, info = run_commands(env, "go to microwave 1", "heat apple 3 with microwave 1", "go to fridge 1")
    assert info["elapsed_steps"] == 8
    assert observation.endswith("You are at: fridge 1.\nIn your hand: apple 3 [cleaned] [heated].")
    observation, _ = run_commands(env, "go to countertop 3", "move apple 3 to countertop 3")
    assert observation.startswith("You move the apple 3 to the countertop 3.\n")
    assert observation.endswith(
        "In your hand: nothing.\nYou moved: apple 3 [cleaned] [heated] from fridge 1 to countertop 3."
    )


def test_augmented_observations_name_all_receptacles_of_a_shared_location() -> None:
    env = ALFWorldEnv(game=SHARED_LOCATION, observation="augmented")
    env.reset()
    assert "You are at: shelf 2 and tvstand 1." in run_commands(env, "go to tvstand 1")[0]


def test_the_observation_key_is_the_observation() -> None:
    for mode in ("raw", "augmented"):
        env = ALFWorldEnv(game=KITCHEN, observation=mode)
        observation, info = env.reset()
        assert info["text_key"] == observation


def test_the_graphgpo_key_has_reply_location_held_object_moves_and_sorted_commands() -> None:
    env = ALFWorldEnv(game=KITCHEN, text_key="graphgpo")
    _, info = env.reset()
    commands = ",".join(info["admissible_actions"])
    assert info["text_key"].endswith(f" Location: middle of a room. Items in hand (status): nothing. {commands}")
    observation, info = run_commands(env, *APPLE)
    commands = ",".join(info["admissible_actions"])
    assert info["text_key"] == (
        f"{observation} Location: sinkbasin 1. Items in hand (status): apple 3(cleaned). {commands}"
    )
    observation, info = run_commands(env, "move apple 3 to sinkbasin 1")
    assert "History moving list by you: apple 3(cleaned) from fridge 1 move to sinkbasin 1; " in info["text_key"]


def test_the_rewardflow_key_loses_its_tag_after_one_step_and_the_papers_keeps_it() -> None:
    keys: dict[str, list[str]] = {}
    for name in ("rewardflow", "rewardflow_paper"):
        env = ALFWorldEnv(game=KITCHEN, text_key=name)
        env.reset()
        keys[name] = [run_commands(env, *APPLE)[1]["text_key"], run_commands(env, "go to fridge 1")[1]["text_key"]]
    assert keys["rewardflow"][0].endswith(". You are carrying: a apple 3 (cleaned).")
    assert keys["rewardflow"][1].endswith(". You are carrying: a apple 3.")
    assert all(key.endswith(". You are carrying: a apple 3 [cleaned].") for key in keys["rewardflow_paper"])


def test_the_rewardflow_key_of_success_is_a_constant() -> None:
    env = ALFWorldEnv(text_key="rewardflow")
    env.reset(seed=3)
    assert run_commands(env, *env.walkthrough())[1]["text_key"] == "You Won!"


@given(seed=st.integers(0, 10_000), walk=st.integers(0, 10_000), steps=st.integers(0, 40))
def test_equal_state_keys_mean_equal_commands_conditions_and_distances(seed: int, walk: int, steps: int) -> None:
    """Reach one key in two ways: by random commands, and by the same with commands without effect in between."""
    first, second = ALFWorldEnv(max_steps=500), ALFWorldEnv(max_steps=500)
    _, info = first.reset(seed=seed)
    _, other = second.reset(seed=seed)
    rng = np.random.default_rng(walk)
    for _ in range(steps):
        actions = info["admissible_actions"]
        if not actions:
            return
        command = actions[int(rng.integers(len(actions)))]
        *_, info = first.step(command)
        for idle in ("look", "inventory", "nonsense"):
            second.step(idle)
        *_, other = second.step(command)
    assert info["state_key"] == other["state_key"]
    assert info["admissible_actions"] == other["admissible_actions"]
    assert info["goal_condition_success_rate"] == other["goal_condition_success_rate"]
    assert first.oracle.distance(first.get_state()) == second.oracle.distance(second.get_state())


def test_walking_back_restores_the_state_key_and_moving_an_object_does_not() -> None:
    env = ALFWorldEnv(game=KITCHEN)
    env.reset()
    here = run_commands(env, "go to fridge 1")[1]["state_key"]
    assert run_commands(env, "open fridge 1", "close fridge 1")[1]["state_key"] == here
    assert run_commands(env, "go to sinkbasin 1", "go to fridge 1")[1]["state_key"] == here
    assert run_commands(env, "open fridge 1", "take apple 3 from fridge 1")[1]["state_key"] != here
    assert run_commands(env, "move apple 3 to fridge 1", "close fridge 1")[1]["state_key"] == here


def test_states_of_different_houses_never_share_a_key() -> None:
    keys = {ALFWorldEnv().reset(seed=seed)[1]["state_key"] for seed in range(30)}
    assert len(keys) == 30


def test_the_put_syntax_is_used_only_if_requested() -> None:
    env = ALFWorldEnv(game=KITCHEN, syntax="put")
    env.reset()
    info = run_commands(env, *APPLE[:3])[1]
    assert "put apple 3 in/on fridge 1" in info["admissible_actions"]
    assert not {"help", "move apple 3 to fridge 1"} & set(info["admissible_actions"])
    assert run_commands(env, "put apple 3 in/on fridge 1")[0] == "You put the apple 3 in/on the fridge 1."
    assert run_commands(env, "go to sinkbasin 1")[0].startswith("You arrive at loc ")
    assert env.step("move apple 3 to fridge 1")[4]["invalid_reason"].startswith("this game puts things down with 'put")
