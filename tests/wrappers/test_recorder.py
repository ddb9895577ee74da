"""Recorder: episodes become trajectories with raw rewards, stop reasons and oracle values."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest

import creditflow
from creditflow.envs.errors import ConfigError, EpisodeError
from creditflow.wrappers import InvalidActions, Recorder

LEVEL = "######\n#@$ .#\n######"  # two pushes to the right


def test_a_solved_episode_is_a_success_with_linked_states():
    env = Recorder(creditflow.make("sokoban", level=LEVEL))
    _, first = env.reset(seed=0)
    env.step("right")
    _, _, _, _, last = env.step("right")
    t = env.trajectory
    assert (t.success, t.score, t.stop_reason) == (True, 1.0, "success")
    assert [turn.action for turn in t.turns] == ["right", "right"]
    assert t.turns[0].state_key == first["state_key"]
    assert t.final_state_key == last["state_key"]
    assert t.episode_return == 1.0


def test_a_limit_is_not_a_failure():
    env = Recorder(creditflow.make("sokoban", level=LEVEL, max_steps=1))
    env.reset(seed=0)
    env.step("left")
    assert env.trajectory.stop_reason == "env_limit"


def test_an_invalid_action_is_recorded_with_its_reason_and_no_effect():
    env = Recorder(creditflow.make("sokoban", level=LEVEL, max_steps=1))
    env.reset(seed=0)
    env.step("jump")
    turn = env.trajectory.turns[0]
    assert not turn.parsed
    assert not turn.valid
    assert not turn.effective
    assert turn.invalid_reason
    assert turn.state_key == turn.next_state_key


def test_raw_rewards_are_recorded_under_every_policy():
    env = Recorder(InvalidActions(creditflow.make("sokoban", level=LEVEL, max_steps=1), "penalise", penalty=0.5))
    env.reset(seed=0)
    _, reward, _, _, _ = env.step("jump")
    assert reward == -0.5
    assert env.trajectory.turns[0].reward == 0.0


def test_oracle_values_are_recorded_before_and_after_each_action():
    env = Recorder(creditflow.make("sokoban", level=LEVEL), oracle=True)
    env.reset(seed=0)
    env.step("right")
    env.step("right")
    assert [dict(turn.values) for turn in env.trajectory.turns] == [
        {"value.oracle": 1.0, "distance.oracle": 2.0, "value.oracle.next": 1.0, "distance.oracle.next": 1.0},
        {"value.oracle": 1.0, "distance.oracle": 1.0, "value.oracle.next": 1.0, "distance.oracle.next": 0.0},
    ]


def test_thoughts_belong_to_the_next_step_only():
    env = Recorder(creditflow.make("sokoban", level=LEVEL))
    env.reset(seed=0)
    env.record_response(thought="push", response="<action>right</action>")
    env.step("right")
    env.step("right")
    assert [turn.thought for turn in env.trajectory.turns] == ["push", ""]


def test_names_hold_for_one_episode():
    env = Recorder(creditflow.make("sokoban", level=LEVEL, max_steps=1), policy="me")
    env.set_next_episode(group_id="g", trajectory_id="t", replica=4)
    env.reset(seed=3)
    env.step("left")
    named = env.trajectory
    assert (named.group_id, named.trajectory_id, named.replica, named.seed, named.policy) == ("g", "t", 4, 3, "me")
    env.reset(seed=3)
    env.step("left")
    assert env.trajectory.group_id == named.task_id


def test_stopping_early_ends_the_record():
    env = Recorder(creditflow.make("sokoban", level=LEVEL))
    env.reset(seed=0)
    with pytest.raises(EpisodeError, match="has not ended"):
        _ = env.trajectory
    env.stop("token_limit")
    assert env.trajectory.stop_reason == "token_limit"
    assert env.trajectory.turns == ()
    with pytest.raises(EpisodeError, match="no running episode"):
        env.stop("token_limit")
    with pytest.raises(EpisodeError, match=r"has ended \(token_limit\): call reset"):
        env.step("right")
    assert env.trajectory.turns == ()


def test_wrong_names_and_environments_without_a_rule_of_success_are_rejected():
    env = Recorder(creditflow.make("sokoban", level=LEVEL))
    with pytest.raises(ConfigError, match="colour"):
        env.set_next_episode(colour="red")
    with pytest.raises(ConfigError, match="does not define success"):
        Recorder(gym.make("CartPole-v1"))


def test_the_wrapped_spec_round_trips_through_json():
    env = Recorder(InvalidActions(creditflow.make("sokoban", level=LEVEL), "retry", retries=3), oracle=True)
    assert env.spec is not None
    again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert isinstance(again, Recorder)
    assert again.reset(seed=0)[1]["task_id"] == env.reset(seed=0)[1]["task_id"]


SEARCH = {"dialect": "search_r1", "panel": "standard-v1:train"}


@pytest.mark.parametrize(
    ("name", "options", "usual", "written"),
    [
        ("sokoban", {"level": LEVEL}, "right", " RIGHT"),
        ("sokoban", {"level": LEVEL, "moves_per_turn": 2}, "left right", "Left  RIGHT"),
        ("alfworld", {"panel": "standard-v3:valid"}, "inventory", "  inventory "),
        ("webshop", {}, "search[red shirt]", "search[Red Shirt] please"),
        ("wikisearch", SEARCH, "<search> Nile </search>", "<think>where</think> <search>Nile</search>"),
    ],
)
def test_one_action_in_several_spellings_is_one_action_for_credit(name, options, usual, written):
    env = Recorder(creditflow.make(name, **options))
    for text in (usual, written):
        env.reset(seed=0)
        env.step(text)
        env.stop("token_limit")
        turn = env.trajectory.turns[0]
        assert turn.valid and (turn.action_key or turn.action) == usual
        base: Any = env.unwrapped
        assert base.action_from_text(turn.action) == turn.action  # as a replay takes it
        env.reset(seed=0)
        env.step("nonsense")
        env.stop("token_limit")
        assert not env.trajectory.turns[0].action_key
