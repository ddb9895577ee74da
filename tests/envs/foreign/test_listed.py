"""``only_listed``: a text that the game does not list is an invalid action, and the game is not stepped."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.errors import DataError
from creditflow.envs.foreign.env import ForeignEnv
from creditflow.envs.spaces import TextSpace
from creditflow.wrappers import GroupEnv, credit


class Stairs(gym.Env[str, str]):
    """Three steps up; counts its own steps."""

    observation_space = action_space = TextSpace()

    def __init__(self, listed: Any = ("up", "wait")) -> None:
        self.listed, self.taken = listed, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.at = 0
        return "floor 0", {"admissible_actions": self.listed}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.taken += 1
        self.at += action == "up"
        done = self.at == 3
        return f"floor {self.at}", float(done), done, False, {"admissible_actions": self.listed, "success": done}


def stairs(**arguments: Any) -> ForeignEnv:
    return ForeignEnv(Stairs(), success="reported", only_listed=True, max_steps=8, **arguments)


@given(text=st.text(max_size=30))
def test_texts_that_are_not_listed_cost_a_turn_and_no_step(text: str) -> None:
    game = Stairs()
    env = ForeignEnv(game, success="reported", only_listed=True, max_steps=8)
    env.reset(seed=0)
    *_, reward, terminated, truncated, info = env.step(text)
    listed = text in ("up", "wait")
    assert (info["action_admissible"], game.taken) == (listed, int(listed))
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert info["action_parsed"]
    assert env.lists_all_actions


def test_the_option_is_off_by_default() -> None:
    env = ForeignEnv(Stairs(), success="reported")
    env.reset(seed=0)
    assert env.step("sing")[4]["action_valid"]
    assert not env.lists_all_actions


@pytest.mark.parametrize("listed", [(), [], None, "up"])
def test_an_environment_that_lists_nothing_is_an_error_that_says_so(listed: Any) -> None:
    env = ForeignEnv(Stairs(listed), success="reported", only_listed=True)
    env.reset(seed=0)
    with pytest.raises(DataError, match="only_listed needs info"):
        env.step("up")


def test_invalid_turns_are_recorded_and_lose_credit_by_the_penalty() -> None:
    group = GroupEnv(stairs, size=2)
    group.reset(seed=0)
    for words in (("up", "fly"), ("up", "up"), ("up", "up")):
        group.step(dict(enumerate(words)))
    group.step({1: "up"})
    played = group.group()
    assert [turn.valid for turn in played.trajectories[1].turns] == [False, True, True, True]
    plain, penalised = (credit.make("gigpo", invalid_penalty=p).assign(played).advantages for p in (0.0, 0.5))
    assert penalised[1][0] < plain[1][0]
