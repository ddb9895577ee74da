"""Actions of any Gymnasium space as text: one text for equal actions, read back without loss, and nothing else accepted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.errors import ConfigError
from creditflow.envs.foreign.actions import MAX_LISTED, action_text, check_action_space, listed_actions, read_action
from creditflow.envs.spaces import TextSpace

SPACES = [
    spaces.Discrete(4),
    spaces.Discrete(3, start=-1),
    spaces.MultiDiscrete([2, 3]),
    spaces.MultiBinary((2, 2)),
    spaces.Box(-1.0, 1.0, (2,), np.float32),
    spaces.Box(0, 255, (2, 2), np.uint8),
    spaces.Text(8),
    spaces.Tuple((spaces.Discrete(2), spaces.Text(3))),
    spaces.Dict({"move": spaces.Discrete(4), "force": spaces.Box(0.0, 1.0, (), np.float64), "say": spaces.Text(4)}),
    spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Tuple((spaces.Discrete(2), spaces.MultiBinary(2)))}),
    spaces.Sequence(spaces.Discrete(3)),
    spaces.Sequence(spaces.Dict({"at": spaces.Box(0.0, 1.0, (2,)), "say": spaces.Text(2)})),
    spaces.OneOf((spaces.Discrete(3, start=5), spaces.Sequence(spaces.Text(2)))),
    TextSpace(("go north", "look\nup")),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_every_element_is_read_back_from_its_text(space):
    space.seed(0)
    for _ in range(50):
        element = space.sample()
        text = action_text(read_action(space, element))
        again = read_action(space, text)
        assert again in space
        assert action_text(again) == text
        assert str(again) == str(read_action(space, element))


@pytest.mark.parametrize("space", SPACES, ids=str)
@given(
    junk=st.one_of(st.none(), st.text(), st.floats(), st.integers(), st.binary(), st.lists(st.integers(), max_size=3))
)
def test_what_is_no_element_is_refused_with_a_reason(space, junk):
    try:
        element = read_action(space, junk)
    except ValueError as error:
        assert str(error)
    else:
        assert element in space or (isinstance(space, spaces.Text) and isinstance(junk, str))  # of any characters


def test_equal_actions_have_one_text():
    space = spaces.Discrete(4)
    actions = [3, np.int64(3), np.uint8(3), np.array(3), "3", " 3"]
    assert {action_text(read_action(space, action)) for action in actions} == {"3"}
    pair = spaces.MultiDiscrete([2, 3])
    assert {action_text(read_action(pair, a)) for a in ([1, 2], (1, 2), np.array([1, 2], np.int8), "[1, 2]")} == {
        "[1,2]"
    }
    box = spaces.Box(-1.0, 1.0, (1,), np.float64)
    assert action_text(read_action(box, [-0.0])) == action_text(read_action(box, [0])) == "[0.0]"


@pytest.mark.parametrize(
    ("space", "action"),
    [
        (spaces.Discrete(4), 4), (spaces.Discrete(4), -1), (spaces.Discrete(4), True), (spaces.Discrete(4), 1.0),
        (spaces.Discrete(4), "1.0"), (spaces.Discrete(4), "[" * 100_000), (spaces.Discrete(4), 10**30),
        (spaces.MultiDiscrete([2, 3]), [0.5, 1]), (spaces.MultiDiscrete([2, 3]), [1]), (spaces.MultiDiscrete([2, 3]), [[1], [1, 2]]),
        (spaces.Box(0, 255, (1,), np.uint8), [256]), (spaces.Box(0.0, 1.0, (1,)), [np.nan]), (spaces.Box(0.0, 1.0, (1,)), ["0.5"]),
        (spaces.Dict({"a": spaces.Discrete(2)}), {"b": 1}), (spaces.Tuple((spaces.Discrete(2),)), [0, 1]), (spaces.Tuple((spaces.Discrete(2),)), 0),
        (spaces.Discrete(4), 2**63), (spaces.Discrete(4), -(2**63) - 1),
        (spaces.Sequence(spaces.Discrete(3)), 1), (spaces.Sequence(spaces.Discrete(3)), [3]),
        (spaces.OneOf((spaces.Discrete(3),)), [1, 0]), (spaces.OneOf((spaces.Discrete(3),)), [-1, 0]), (spaces.OneOf((spaces.Discrete(3),)), [0]),
        (spaces.OneOf((spaces.Discrete(3),)), "0"), (spaces.OneOf((spaces.Discrete(3),)), [0, 3]),
    ],
)  # fmt: skip
def test_near_misses_are_refused(space, action):
    with pytest.raises(ValueError, match=r"must|element|number|array"):
        read_action(space, action)


class Even(spaces.Space):
    """A space of its own kind, whose check fails on what is no number."""

    def contains(self, x):
        return x % 2 == 0


@pytest.mark.parametrize("action", ["{", "null", None, [1], 3])
def test_a_check_that_fails_refuses_the_action(action):
    assert read_action(Even(), "4") == 4
    with pytest.raises(ValueError, match="element"):
        read_action(Even(), action)


def test_a_reason_is_short_however_large_the_space():
    space = spaces.Dict({str(i): spaces.Text(4, charset="".join(map(chr, range(32, 900)))) for i in range(9)})
    with pytest.raises(ValueError, match="not an element of Dict") as error:
        read_action(space, "{")
    assert len(str(error.value)) < 200


@pytest.mark.parametrize(
    "space",
    [
        spaces.Graph(spaces.Discrete(2), None), spaces.Sequence(spaces.Discrete(2), stack=True), spaces.Dict({"a": spaces.Graph(spaces.Discrete(2), None)}),
        spaces.Sequence(spaces.OneOf((spaces.Discrete(2), spaces.Tuple((spaces.Graph(spaces.Discrete(2), None),))))),
    ],
    ids=str,
)  # fmt: skip
def test_spaces_without_texts_are_refused_before_anything_is_played(space):
    with pytest.raises(ConfigError, match=r"cannot be written as text; .*TransformAction"):
        check_action_space(space)
    for known in SPACES:
        check_action_space(known)


def test_small_finite_spaces_are_listed_in_order_and_nothing_else():
    assert listed_actions(spaces.Discrete(3, start=1)) == ("1", "2", "3")
    assert listed_actions(spaces.MultiDiscrete([2, 2])) == ("[0,0]", "[0,1]", "[1,0]", "[1,1]")
    assert listed_actions(spaces.Dict({"b": spaces.Discrete(2), "a": spaces.MultiBinary(1)})) == (
        '{"a":[0],"b":0}', '{"a":[0],"b":1}', '{"a":[1],"b":0}', '{"a":[1],"b":1}',
    )  # fmt: skip
    assert len(listed_actions(spaces.Discrete(MAX_LISTED))) == MAX_LISTED
    assert listed_actions(TextSpace(("go", "look"))) == ("go", "look")
    assert listed_actions(TextSpace()) == ()
    large: list[Any] = [spaces.Discrete(MAX_LISTED + 1), spaces.MultiBinary(9), spaces.Box(0.0, 1.0), spaces.Text(2)]
    assert [listed_actions(space) for space in large] == [()] * 4
    for space in SPACES:
        assert all(action_text(read_action(space, text)) == text for text in listed_actions(space))
