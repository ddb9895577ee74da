"""GEM makes, steps, wraps, spawns and vectorises our environments; its infos carry what credit needs."""

from __future__ import annotations

import copy
import importlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.envs.errors import ConfigError, DataError, EpisodeError
from creditflow.train.adapters.text_episode import MAX_CHARACTERS
from creditflow.wrappers.credit.bridge import FIELD

pytestmark = pytest.mark.gem
SMALL: dict[str, dict[str, Any]] = {
    "sokoban": {"panel": "small-v1:train", "max_steps": 6},
    "alfworld": {"panel": "standard-v3:train", "max_steps": 6},
    "webshop": {"panel": "standard-v1:train", "max_steps": 6},
    "wikisearch": {"world": {"articles": 400, "questions": 16, "seed": 3}, "max_steps": 6},
}


def made(name: str, **options: Any) -> Any:
    import gem

    return gem.make(f"creditflow:{name}", **{**SMALL[name], **options})


def global_generators() -> tuple[Any, ...]:
    """States of the generators that GEM's own games seed."""
    python, numpy = importlib.import_module("random"), importlib.import_module("numpy.random")
    return python.getstate(), str(numpy.get_state())


def play(env: Any, seed: int | None = None, turns: int = 99) -> list[tuple[Any, ...]]:
    """What a reset and the steps of listed actions return."""
    found: list[tuple[Any, ...]] = [env.reset(seed=seed)]
    while len(found) <= turns and not (len(found) > 1 and (found[-1][2] or found[-1][3])):
        found.append(env.step(env.unwrapped.sample_random_action()))
    return found


@pytest.mark.parametrize("name", SMALL)
def test_one_import_makes_them_environments_of_gem_with_its_types(name: str) -> None:
    import gem
    from gem.utils.constants import TERMINAL_STATE

    env = made(name)
    assert isinstance(env, gem.Env)
    assert env.env_id == f"creditflow:{name}"
    observation, info = env.reset(seed=3)
    assert isinstance(observation, str)
    assert isinstance(info, dict)
    steps = play(env, seed=3)[1:]
    for text, reward, terminated, truncated, info in steps:
        assert (type(text), type(reward), type(terminated), type(truncated)) == (str, float, bool, bool)
        assert {"state_key", "text_key", "task_id", "won", "score", "is_action_valid", "admissible_actions"} <= set(
            info
        )
        assert info["is_action_valid"]
        assert (text == TERMINAL_STATE) == (terminated or truncated) == (FIELD in info)
        assert not (terminated and truncated)
        assert copy.deepcopy(info) == info
        if name == "wikisearch":
            assert info["admissible_actions"] == []  # they may contain the answer


@pytest.mark.parametrize("name", SMALL)
def test_a_seed_names_a_task_and_its_noise_and_no_global_generator_is_touched(name: str) -> None:
    before = global_generators()
    one, other = made(name, seed=4), made(name, seed=4)
    assert play(one, seed=7) == play(other, seed=7)
    assert play(one) == play(other)
    tasks = {one.reset(seed=seed)[1]["task_id"] for seed in range(8)}
    assert len(tasks) > 1
    drawn = [env.reset()[1]["task_id"] for env in (one, made(name, seed=5)) for _ in range(8)]
    assert len(set(drawn[:8])) > 1 and drawn[:8] != drawn[8:]  # without a seed: the next of this environment's
    assert global_generators() == before


@pytest.mark.parametrize("name", SMALL)
def test_an_environment_in_the_same_state_continues_alike(name: str) -> None:
    env = made(name)
    play(env, seed=5, turns=2)
    twin = env.spawn(same_state=True)
    actions = [env.sample_random_action() for _ in range(1)] + ["<think>no action</think>"]
    assert [env.step(action) for action in actions] == [twin.step(action) for action in actions]
    ended = False
    while not ended:  # the records at the end are equal too
        action = env.sample_random_action()
        found = env.step(action)
        assert twin.step(action) == found
        ended = found[2] or found[3]
    fresh = env.spawn(seed=9)
    with pytest.raises(EpisodeError, match="reset"):
        fresh.step("up")
    with pytest.raises(ConfigError, match="same settings: max_steps"):
        env.spawn(same_state=True, max_steps=3)


def test_wrappers_and_vector_environments_of_gem_apply(options: dict[str, Any]) -> None:
    import gem
    from gem.wrappers.episode_tracking_wrapper import EpisodeTrackingWrapper
    from gem.wrappers.observation_wrapper import ObservationWrapper

    inner = ObservationWrapper(made("sokoban"), include_chat_template=False)  # it reads every public attribute here
    wrapped = EpisodeTrackingWrapper(inner)
    first, _ = wrapped.reset(seed=0)
    text, *_, info = wrapped.step("<think>a</think><action>up</action>")
    assert text.startswith(first)
    assert info["step_counter"] == 1
    assert "<think>a</think><action>up</action>" in text
    names = ["creditflow:sokoban"] * 3
    for mode in (False, True):
        envs = gem.make_vec(names, vec_kwargs=[dict(options) for _ in names], async_mode=mode, seed=2)
        envs.reset(seed=1)
        for _ in range(5):
            observations, rewards, terminated, truncated, infos = envs.step(["<think>a</think><action>up</action>"] * 3)
        assert rewards.shape == terminated.shape == truncated.shape == (3,)
        assert truncated.all()
        assert len(observations) == 3
        assert all(
            info["prev_ep_creditflow"] and info["prev_ep_won"] is False for info in infos
        )  # reset in the same step


@pytest.mark.parametrize("turns", [1, 2])
def test_max_turns_truncates_before_the_environments_own_limit(turns: int) -> None:
    env = made("sokoban", max_turns=turns)
    env.reset(seed=0)
    ends = [env.step("<think></think><action>nowhere</action>")[2:4] for _ in range(turns)]
    assert ends == [(False, False)] * (turns - 1) + [(False, True)]


def test_wrong_calls_are_rejected_with_the_reason() -> None:
    env = made("sokoban")
    with pytest.raises(EpisodeError, match="reset"):
        env.step("up")
    for seed in (-1, "a", 1.5, True, 2**63):
        with pytest.raises(DataError, match="a seed is an integer"):
            env.reset(seed=seed)
    env.reset(seed=0)
    for wrong in (None, b"up", ["up"], 3):
        with pytest.raises(DataError, match="a completion must be a text"):
            env.step(wrong)
    *_, info = env.step("<think>" + "x" * MAX_CHARACTERS + "</think><action>up</action>")
    assert not info["is_action_valid"]
    play(env, seed=0)
    with pytest.raises(EpisodeError):
        env.step("<think></think><action>up</action>")
    with pytest.raises(ConfigError, match="environment"):
        type(env)("sokobn")
    for settings_ in (
        {"max_turns": "3"},
        {"prompting": {"promt": "a"}},
        {"panel": 3},
        {"no_such": 1},
        {"max_turns": -1},
    ):
        with pytest.raises(ConfigError):
            made("sokoban", **settings_)


@settings(max_examples=40, deadline=None)
@given(
    text=st.text(max_size=200) | st.sampled_from(["</think>", "<action>", "<think></think><action>up</action><action>"])
)
def test_any_text_is_a_turn(text: str) -> None:
    env = made("sokoban")
    env.reset(seed=1)
    observation, reward, terminated, truncated, info = env.step(text)
    assert not (terminated or truncated)
    assert isinstance(observation, str)
    assert np.isfinite(reward)
    assert info["is_action_valid"] == (text == "<think></think><action>up</action>")
