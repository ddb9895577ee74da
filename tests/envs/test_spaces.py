"""``TextSpace`` contains any text, through vector environments too."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.envs import TextSpace
from creditflow.envs.errors import ConfigError

LINES = "two\nlines √ 𝔘 \U0001f600 \x00"


class Echo(gym.Env[str, str]):
    """An environment whose observation is the last action."""

    observation_space = TextSpace()
    action_space = TextSpace(("a", LINES))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return LINES, {}

    def step(self, action):
        return action, 0.0, False, False, {}


@settings(derandomize=True, deadline=None)
@given(st.text())
def test_every_string_is_a_member(text):
    assert text in TextSpace()


@pytest.mark.parametrize("value", [None, 3, b"bytes", ["list"], np.array("x")])
def test_other_values_are_not_members(value):
    assert value not in TextSpace()


def test_samples_come_from_the_list_and_follow_the_seed():
    one, other = TextSpace("abc", seed=3), TextSpace("abc", seed=3)
    drawn = [one.sample() for _ in range(60)]
    assert drawn == [other.sample() for _ in range(60)]
    assert set(drawn) == set("abc")


def test_masks_and_empty_samples_are_rejected():
    with pytest.raises(ConfigError):
        TextSpace().sample(mask=1)
    with pytest.raises(ConfigError):
        TextSpace(())
    with pytest.raises(ConfigError):
        TextSpace((1,))  # type: ignore[arg-type]  # wrong on purpose


def test_texts_survive_jsonable_form():
    space = TextSpace()
    assert space.from_jsonable(space.to_jsonable([LINES, ""])) == [LINES, ""]


def test_equality_is_by_samples():
    assert TextSpace("ab") == TextSpace(["a", "b"]) != TextSpace("a")
    assert hash(TextSpace("ab")) == hash(TextSpace(["a", "b"]))
    assert not TextSpace().is_np_flattenable


@pytest.mark.parametrize(
    "build",
    [lambda: SyncVectorEnv([Echo] * 2), lambda: AsyncVectorEnv([Echo] * 2, shared_memory=False)],
    ids=["sync", "async"],
)
def test_any_text_passes_through_vector_environments(build):
    vector = build()
    try:
        obs, _ = vector.reset(seed=0)
        assert tuple(obs) == (LINES, LINES)
        for actions in ((LINES, ""), ("x" * 100_000, "\n\n"), ("é", "日本語")):
            assert tuple(vector.step(actions)[0]) == actions
        vector.action_space.seed(0)
        assert set(vector.action_space.sample()) <= {"a", LINES}
    finally:
        vector.close()
