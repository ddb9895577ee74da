"""The vector environment is Gymnasium's ``SyncVectorEnv`` of single environments, move for move, in every mode."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.envs.sokoban import SokobanEnv
from creditflow.envs.sokoban.vector import SokobanVectorEnv

MODES = ("NextStep", "SameStep", "Disabled")
SMALL = "######\n#@ $.#\n#    #\n######"
OPTIONS: dict[str, Any] = {
    "text": {"max_steps": 7},
    "grid": {"obs_mode": "grid", "action_mode": "discrete", "reward": "gym_sokoban"},
    "planes": {"obs_mode": "planes", "action_mode": "discrete", "n_actions": 9, "reward": "gym_sokoban", "max_steps": 40},
    "rgb": {"obs_mode": "rgb", "action_mode": "discrete", "tile_size": 5, "grid_shape": [8, 9], "reward": "ten"},
    "dict": {"obs_mode": "dict", "obs_keys": ["rgb", "text"], "tile_size": 4, "max_steps": 9},
    "all keys": {"obs_mode": "dict", "action_mode": "discrete", "text_format": "coordinates", "tile_size": 4, "max_steps": 9},
    "nine texts": {"n_actions": 9, "symbols": "xsb", "separator": "", "panel": "small-v1:test"},
    "generated": {
        "generator": {"height": 6, "width": 7, "boxes": 2, "min_length": 1, "max_length": 3},
        "obs_mode": "grid", "action_mode": "discrete", "max_steps": 12,
    },
}  # fmt: skip


def assert_same(one, other):
    """Both observations (or infos, or arrays) have the same types, dtypes and values."""
    if isinstance(other, dict):
        assert set(one) == set(other)
        for key in other:
            assert_same(one[key], other[key])
    elif isinstance(other, np.ndarray) and other.dtype == object:
        assert isinstance(one, np.ndarray)
        assert one.shape == other.shape
        for left, right in zip(one, other, strict=True):
            assert_same(left, right)
    elif isinstance(other, np.ndarray):
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)
    else:
        assert type(one) is type(other)
        assert one == other


def sync(num_envs, mode, **kwargs):
    """Gymnasium's loop over single environments."""
    return SyncVectorEnv([lambda: SokobanEnv(**kwargs)] * num_envs, autoreset_mode=AutoresetMode(mode))


def random_actions(rng, env, invalid):
    """Actions of which some are invalid."""
    if isinstance(env.single_action_space, gym.spaces.Discrete):
        n = int(env.single_action_space.n)
        return rng.integers(-1 if invalid else 0, n + (1 if invalid else 0), env.num_envs)
    texts = [
        *env.single_action_space.samples,
        *(["fly", " UP\n", "", "up up"] if invalid else []),
    ]
    return tuple(texts[i] for i in rng.integers(0, len(texts), env.num_envs))


def play_both(native, reference, seed, steps, *, invalid=True):
    """Play the same random actions in both, and compare everything; returns the number of ended episodes."""
    rng = np.random.default_rng(seed)
    results: Any = native.reset(seed=seed), reference.reset(seed=seed)
    ended = 0
    for _ in range(steps):
        for ours, theirs in zip(*results, strict=True):
            assert_same(ours, theirs)
        actions = random_actions(rng, native, invalid)
        results = native.step(actions), reference.step(actions)
        over = results[1][2] | results[1][3]
        ended += int(over.sum())
        if over.any() and native.autoreset_mode == AutoresetMode.DISABLED:
            for ours, theirs in zip(*results, strict=True):
                assert_same(ours, theirs)
            results = tuple(env.reset(options={"reset_mask": over.copy()}) for env in (native, reference))
    return ended


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kwargs", OPTIONS.values(), ids=OPTIONS)
def test_everything_equals_gymnasiums_loop_over_single_environments(kwargs, mode):
    native, reference = SokobanVectorEnv(5, autoreset_mode=mode, **kwargs), sync(5, mode, **kwargs)
    assert native.observation_space == reference.observation_space
    assert native.action_space == reference.action_space
    assert native.single_observation_space == reference.single_observation_space
    assert native.metadata == reference.metadata
    assert play_both(native, reference, seed=11, steps=90) > 5


@pytest.mark.parametrize("mode", MODES)
def test_thousands_of_random_games_are_the_same(mode):
    kwargs: dict[str, Any] = {
        "obs_mode": "grid",
        "action_mode": "discrete",
        "panel": "small-v1",
        "max_steps": 6,
        "reward": "gym_sokoban",
    }
    native, reference = SokobanVectorEnv(64, autoreset_mode=mode, **kwargs), sync(64, mode, **kwargs)
    rng = np.random.default_rng(5)
    games = 0
    assert_same(native.reset(seed=5)[0], reference.reset(seed=5)[0])
    for _ in range(120):
        actions = rng.integers(0, 4, 64)
        ours, theirs = native.step(actions), reference.step(actions)
        over = theirs[2] | theirs[3]
        games += int(over.sum())
        for index in range(4):
            assert_same(ours[index], theirs[index])
        for key in ("task_id", "success", "elapsed_steps", "boxes_on_target", "moved_box"):
            assert_same(ours[4][key], theirs[4][key])
        if mode == "Disabled" and over.any():
            native.reset(options={"reset_mask": over.copy()})
            reference.reset(options={"reset_mask": over.copy()})
    assert games > 1000


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**40), envs=st.integers(1, 4), boxes=st.integers(1, 3), moves=st.lists(st.integers(0, 8)))
def test_environment_i_plays_what_a_single_environment_with_seed_plus_i_plays(seed, envs, boxes, moves):
    kwargs: dict[str, Any] = {
        "generator": {"boxes": boxes, "min_length": 1}, "n_actions": 9, "action_mode": "discrete", "reward": "gym_sokoban",
    }  # fmt: skip
    native = SokobanVectorEnv(envs, autoreset_mode="Disabled", **kwargs)
    observed, infos = native.reset(seed=seed)
    single = [SokobanEnv(**kwargs) for _ in range(envs)]
    for number, env in enumerate(single):
        text, info = env.reset(seed=seed + number)
        assert (observed[number], infos["task_id"][number]) == (text, info["task_id"])
    for turn, move in enumerate(moves):
        actions = [(move + turn * number) % 9 for number in range(envs)]
        observed, rewards, terminations, truncations, infos = native.step(actions)
        for number, env in enumerate(single):
            text, reward, terminated, truncated, info = env.step(actions[number])
            assert observed[number] == text
            assert (rewards[number], terminations[number], truncations[number]) == (reward, terminated, truncated)
            assert {key: infos[key][number] for key in info} == info
            assert native.get_state(number) == env.get_state()
        if (terminations | truncations).any():
            return


@pytest.mark.parametrize("mode", MODES)
def test_a_single_environment_continues_from_any_state_of_the_vector_environment(mode):
    kwargs: dict[str, Any] = {"obs_mode": "grid", "action_mode": "discrete", "max_steps": 25}
    native, single = SokobanVectorEnv(3, autoreset_mode=mode, **kwargs), SokobanEnv(**kwargs)
    rng = np.random.default_rng(0)
    native.reset(seed=1)
    for _ in range(24):
        snapshots = [native.get_state(number) for number in range(3)]
        actions = rng.integers(0, 4, 3)
        if native.step(actions)[2].any():
            native.reset()
            continue
        for number, snapshot in enumerate(snapshots):
            single.set_state(snapshot)
            single.step(actions[number])
            assert native.get_state(number) == single.get_state()


@pytest.mark.parametrize("obs_mode", ["text", "grid", "planes"])
def test_levels_of_different_sizes_stand_side_by_side(obs_mode):
    kwargs: dict[str, Any] = {"level": SMALL, "grid_shape": [6, 9], "obs_mode": obs_mode}
    native, reference = SokobanVectorEnv(3, **kwargs), sync(3, "NextStep", **kwargs)
    larger = "#########\n#  @ $ .#\n##$     #\n # .    #\n #      #\n ########"
    play_both(native, reference, seed=0, steps=5)
    mask = np.array([False, True, False])
    ours: Any = native.reset(options={"task": larger, "reset_mask": mask.copy()})
    theirs: Any = reference.reset(options={"task": larger, "reset_mask": mask.copy()})
    rng = np.random.default_rng(3)
    for _ in range(40):
        for left, right in zip(ours, theirs, strict=True):
            assert_same(left, right)
        actions = random_actions(rng, native, invalid=True)
        ours, theirs = native.step(actions), reference.step(actions)


@pytest.mark.parametrize("render_mode", ["rgb_array", "ansi"])
def test_frames_are_those_of_single_environments(render_mode):
    kwargs: dict[str, Any] = {"render_mode": render_mode, "tile_size": 4, "panel": "standard-v1:valid"}
    native, reference = SokobanVectorEnv(3, **kwargs), sync(3, "NextStep", **kwargs)
    native.reset(seed=2)
    reference.reset(seed=2)
    for _ in range(3):
        for ours, theirs in zip(native.render() or (), reference.render(), strict=True):
            assert np.array_equal(ours, theirs)
        native.step(["up"] * 3)
        reference.step(["up"] * 3)


def test_gymnasium_makes_it_by_its_registered_id():
    envs = gym.make_vec("creditflow/Sokoban-v0", num_envs=3, vectorization_mode="vector_entry_point", obs_mode="grid")
    assert isinstance(envs.unwrapped, SokobanVectorEnv)
    assert envs.spec is not None
    again = gym.make_vec(gym.envs.registration.EnvSpec.from_json(envs.spec.to_json()))
    assert isinstance(again, SokobanVectorEnv)
    assert again.num_envs == 3
    assert_same(again.reset(seed=4)[0], envs.reset(seed=4)[0])
