"""Turns of several moves: each move is recorded, the oracle counts turns, and what does not fit is decided by a policy."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import creditflow
from creditflow.envs import check_agent_env
from creditflow.envs.errors import ConfigError, OracleLimitError
from creditflow.envs.sokoban import SokobanEnv
from creditflow.envs.sums import sum_in_order

CORRIDOR = "########\n#@ $  .#\n########"
ROOM = "#######\n#  .  #\n# $ @ #\n#  $ .#\n#######"
WORDS = ("up", "down", "left", "right")


def begun(level=ROOM, **kwargs):
    env = SokobanEnv(level=level, **{"moves_per_turn": 3, "reward": "gym_sokoban", **kwargs})
    env.reset()
    return env


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=3), min_size=1, max_size=8))
def test_a_turn_is_its_moves_one_by_one(turns):
    """States, rewards and flags of the moves are those of an environment that makes one move per step."""
    env, single = begun(), SokobanEnv(level=ROOM, reward="gym_sokoban")
    single.reset()
    for number, moves in enumerate(turns, 1):
        board, reward, terminated, truncated, info = env.step(" ".join(moves))
        steps: list[Any] = []
        for move in moves:
            steps.append(single.step(move))
            if steps[-1][2]:
                break
        assert info["moves"] == tuple(moves[: len(steps)])
        assert info["move_rewards"] == tuple(step[1] for step in steps)
        assert info["move_state_keys"] == tuple(step[4]["state_key"] for step in steps)
        assert info["ignored_words"] == len(moves) - len(steps)
        assert reward == sum_in_order(info["move_rewards"])
        assert (board, terminated, truncated) == (steps[-1][0], steps[-1][2], False)
        assert info["state_key"] == info["move_state_keys"][-1]
        assert info["elapsed_steps"] == number
        for flag in ("action_effective", "player_moved", "moved_box"):
            assert info[flag] == any(step[4][flag] for step in steps)
        if terminated:
            return


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("right right up down", "4 moves are too many"),
        ("right jump up", "'jump', number 2, is not a move"),
        ("right, up", "'right,', number 1, is not a move"),
        ("right||up", "is not a move"),
        ("", "an empty string begins with no move"),
        (" \n", "begins with no move"),
        ("up " * 10**6, "is too long"),
        (3, "an action is a string"),
    ],
)
def test_the_strict_policy_rejects_the_whole_answer(text, reason):
    env = begun()
    before = env.get_state()
    _, reward, _, _, info = env.step(text)
    assert reason in info["invalid_reason"]
    assert "at most 3 of: up, down, left, right" in info["invalid_reason"]
    assert not info["action_parsed"]
    assert reward == -0.1
    assert (info["moves"], info["move_rewards"], info["move_state_keys"], info["ignored_words"]) == ((), (), (), 0)
    assert {**json.loads(env.get_state()), "steps": 0} == json.loads(before)


@pytest.mark.parametrize(
    ("text", "moves", "ignored"),
    [
        ("right right up down", ("right", "right", "up"), 1),
        ("right jump up", ("right",), 2),
        ("left up now", ("left", "up"), 1),
        ("UP\nDown", ("up", "down"), 0),
    ],
)
def test_the_prefix_policy_makes_the_moves_before_the_first_that_does_not_fit(text, moves, ignored):
    info = begun(moves_policy="prefix").step(text)[4]
    assert (info["moves"], info["ignored_words"], info["action_valid"]) == (moves, ignored, True)


@pytest.mark.parametrize("text", ["jump right", "", "x"])
def test_the_prefix_policy_rejects_an_answer_that_begins_with_no_move(text):
    info = begun(moves_policy="prefix").step(text)[4]
    assert "begins with no move" in info["invalid_reason"]


def test_moves_after_the_solution_are_not_made():
    env = begun("#####\n#@$.#\n#####")
    _, reward, terminated, _, info = env.step("right left left")
    assert terminated
    assert reward == 10.9
    assert (info["moves"], info["ignored_words"]) == (("right",), 2)


def test_moves_of_two_words():
    env = begun(CORRIDOR, n_actions=9)
    info = env.step("move right  no operation push right")[4]
    assert info["moves"] == ("move right", "no operation", "push right")
    assert "is not a move" in env.step("push right push")[4]["invalid_reason"]


@pytest.mark.parametrize(
    ("text", "ignored"),
    [("push right push", 1), ("push right and push right", 3), ("push right move left", 0), ("push push right", 0)],
)
def test_ignored_words_are_counted_in_words_though_a_move_has_two(text, ignored):
    kwargs: dict[str, Any] = {"n_actions": 9, "moves_per_turn": 3, "moves_policy": "prefix", "level": CORRIDOR}
    assert begun(**kwargs).step(text)[4]["ignored_words"] == ignored


def test_a_restored_state_has_no_last_turn():
    env = begun()
    env.step("left")
    assert env.set_state(env.get_state())[1]["moves"] == ()


@pytest.mark.parametrize("policy", ["strict", "prefix"])
@pytest.mark.parametrize("n_actions", [4, 9])
def test_the_agent_contract_holds(policy, n_actions):
    check_agent_env(
        creditflow.make("sokoban", moves_per_turn=2, moves_policy=policy, n_actions=n_actions, panel="small-v1:train"),
        steps=25,
    )


@pytest.mark.parametrize("n_actions", [4, 9])
@pytest.mark.parametrize("m", [2, 3])
def test_the_oracle_counts_turns_and_lists_exactly_the_best(m, n_actions):
    """Against playing every turn of at most m moves."""
    env = SokobanEnv(level=CORRIDOR if n_actions == 9 else ROOM, moves_per_turn=m, n_actions=n_actions)
    env.reset()
    single = SokobanEnv(level=env.task.content["xsb"]).oracle
    words = env._vocabulary.texts
    for _ in range(4):
        state = env.get_state()
        distance = env.oracle.distance(state)
        assert distance == -(-single.distance(state) // m)
        assert env.oracle.value(state, steps_left=int(distance)) == 1.0
        assert env.oracle.value(state, steps_left=int(distance) - 1) == 0.0
        best = set()
        for length in range(1, m + 1):
            for moves in product(words, repeat=length):
                _, _, _, _, info = env.step(" ".join(moves))
                if not info["ignored_words"] and env.oracle.distance(env.get_state()) == distance - 1:
                    best.add(" ".join(moves))
                env.set_state(state)
        assert env.oracle.optimal_actions(state) == tuple(sorted(best))
        if env.step(env.oracle.solution(state)[0])[2]:
            return


def test_a_solution_by_turns_solves():
    for m in (1, 2, 5, 64):
        env = begun(moves_per_turn=m)
        turns = env.oracle.solution(env.get_state())
        assert len(turns) == env.oracle.distance(env.get_state())
        assert [env.step(turn)[2] for turn in turns] == [False] * (len(turns) - 1) + [True]


def test_too_many_optimal_turns_are_an_error_that_says_what_still_works():
    env = begun(moves_per_turn=30)
    with pytest.raises(OracleLimitError, match=r"lower moves_per_turn, or use distance\(\)"):
        env.oracle.optimal_actions(env.get_state())


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        *(({"moves_per_turn": m}, "integer from 1 to 64") for m in (0, -1, 65, 2.0, "2", True, None)),
        ({"moves_policy": "prefx"}, "did you mean 'prefix'"),
        ({"moves_policy": "prefix"}, "needs turns of several moves"),
        ({"moves_per_turn": 2, "action_mode": "discrete"}, "needs action_mode='text'"),
    ],
)
def test_wrong_arguments_are_rejected_with_a_reason(kwargs, message):
    with pytest.raises(ConfigError, match=message):
        SokobanEnv(**kwargs)


def test_an_episode_ends_when_its_moves_are_made():
    """Five moves: 3 in the first turn, of the second turn's 3 the 2 that are left."""
    env = begun(max_moves=5, reward="ragen")
    *_, terminated, truncated, info = env.step("up up up")
    assert (terminated, truncated, info["moves_left"]) == (False, False, 2)
    snapshot = env.get_state()
    assert env.oracle.value(snapshot, steps_left=100) == 0.0  # two boxes need more than 2 moves
    assert env.oracle.value(snapshot) == 1.0
    _, reward, terminated, truncated, info = env.step("up up up")
    assert (info["moves"], info["ignored_words"], info["moves_left"]) == (("up", "up"), 1, 0)
    assert (reward, terminated, truncated) == (-0.2, False, True)
    env.set_state(snapshot)
    assert env.step("up")[4]["moves_left"] == 1
    assert env.reset()[1]["moves_left"] == 5


def test_a_rejected_action_costs_nothing_in_ragen_and_a_step_in_gym_sokoban():
    for reward, cost in (("ragen", 0.0), ("gym_sokoban", -0.1)):
        assert begun(reward=reward).step("jump")[1] == cost


def test_a_limit_of_moves_is_for_single_environments_with_several_moves_per_turn():
    with pytest.raises(ConfigError, match="max_moves"):
        SokobanEnv(level=ROOM, max_moves=4)
