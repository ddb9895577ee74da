"""Sums of floats are the same number on every Python, though the built-in ``sum`` rounds otherwise from 3.12 on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.sokoban import SokobanEnv
from creditflow.envs.sums import sum_in_order
from creditflow.envs.webshop.goals.goals import attribute_weight
from creditflow.wrappers.credit.entities.stepsearch import search_key_score

TEN_TENTHS = 0.9999999999999999  # added one after another; compensated, as by sum() from Python 3.12 on: 1.0


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32)))
def test_a_sum_is_its_additions_from_left_to_right(numbers):
    total = 0.0
    for number in numbers:
        total += number
    assert sum_in_order(numbers) == total


def test_a_goals_weight_is_added_from_left_to_right_as_in_the_recorded_goals():
    attributes = "abcdefghij"
    assert attribute_weight(attributes, dict.fromkeys(attributes, 10)) == TEN_TENTHS / 10


def test_the_reward_of_a_turn_is_that_of_its_moves_from_left_to_right():
    env = SokobanEnv(level="########\n#@ $  .#\n########", moves_per_turn=3, reward="gym_sokoban")
    env.reset()
    _, reward, *_ = env.step("left left left")
    assert reward == -0.30000000000000004


def test_a_search_key_score_is_added_from_left_to_right():
    keys = [("x",)] * 10
    assert search_key_score(["x" + " y" * 18], keys) == TEN_TENTHS / 10
