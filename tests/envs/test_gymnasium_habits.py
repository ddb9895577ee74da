"""What people do with any Gymnasium environment works with all four: samples, vectors, wrappers, frames, copies."""

from __future__ import annotations

import copy
import pickle  # noqa: TID251 - processes exchange environments by it; nothing is read that this test did not write
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector.utils import create_shared_memory, read_from_shared_memory, write_to_shared_memory
from gymnasium.wrappers import FlattenObservation, FrameStackObservation, RenderCollection

import creditflow
from creditflow.envs.errors import ConfigError
from creditflow.envs.spaces import SHARED_BYTES, TextSpace
from creditflow.envs.text.frame import HEIGHT, WIDTH, text_frame
from creditflow.wrappers import DenseReward
from creditflow.wrappers.group_env import GroupEnv

NAMES = ("sokoban", "alfworld", "webshop", "wikisearch")
IDS = {name: creditflow.make(name).spec.id for name in NAMES}  # type: ignore[union-attr]  # known at run time
COPIES: dict[str, Callable[[Any], Any]] = {
    "copy.deepcopy": copy.deepcopy,
    "pickle": lambda env: pickle.loads(pickle.dumps(env)),  # noqa: S301 - as above
}


@pytest.mark.parametrize("name", NAMES)
def test_samples_of_the_action_space_can_be_parsed(name: str) -> None:
    env = gym.make(IDS[name])
    env.action_space.seed(3)
    env.reset(seed=3)
    for _ in range(30):
        _, _, terminated, truncated, info = env.step(env.action_space.sample())
        assert info["action_parsed"]
        if terminated or truncated:
            env.reset()


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("name", NAMES)
def test_a_vector_of_gymnasium_shows_what_single_environments_show(name: str, mode: str) -> None:
    vector: Any = gym.make_vec(IDS[name], num_envs=2, vectorization_mode=mode)
    singles = [gym.make(IDS[name]) for _ in range(2)]
    try:
        observations, _ = vector.reset(seed=[4, 5])
        expected = [env.reset(seed=seed) for env, seed in zip(singles, (4, 5), strict=True)]
        assert tuple(observations) == tuple(observation for observation, _ in expected)
        vector.action_space.seed(0)
        for _ in range(3):
            before = observations
            actions = vector.action_space.sample()
            observations, rewards, *_ = vector.step(actions)
            results = [env.step(action) for env, action in zip(singles, actions, strict=True)]
            assert tuple(observations) == tuple(result[0] for result in results)
            assert list(rewards) == [result[1] for result in results]
            assert observations in vector.observation_space
            if any(result[2] or result[3] for result in results):
                break
        assert isinstance(before, tuple)  # a copy, which later steps do not change
    finally:
        vector.close()


def test_shared_memory_holds_any_text_up_to_its_size_and_a_longer_one_is_an_error() -> None:
    space = TextSpace()
    memory: Any = create_shared_memory(space, n=2)
    write: Any = write_to_shared_memory
    texts = read_from_shared_memory(space, memory, n=2)
    assert tuple(texts) == ("", "")
    for written in ("é 日本 \ud800\0\n", "", "x" * (SHARED_BYTES - 4)):
        write(space, 1, written, memory)
        assert (*texts,) == copy.deepcopy(texts) == ("", written)
    with pytest.raises(ConfigError, match="'shared_memory': False"):
        write(space, 0, "é" * (SHARED_BYTES // 2), memory)


@pytest.mark.parametrize("name", NAMES)
def test_observations_are_flattened_and_stacked(name: str) -> None:
    plain = gym.make(IDS[name])
    first, _ = plain.reset(seed=1)
    action = plain.action_space.sample()
    second = plain.step(action)[0]
    flat = FlattenObservation(gym.make(IDS[name]))
    assert flat.reset(seed=1)[0] == first
    assert first in flat.observation_space
    stacked: gym.Env[Any, Any] = FrameStackObservation(gym.make(IDS[name]), 3, padding_type="zero")
    assert stacked.reset(seed=1)[0] == ("", "", first)
    stack = stacked.step(action)[0]
    assert stack == ("", first, second)
    assert stack in stacked.observation_space


@pytest.mark.parametrize("name", NAMES)
def test_frames_of_an_episode_make_a_video(name: str) -> None:
    env: gym.Env[Any, Any] = RenderCollection(gym.make(IDS[name], render_mode="rgb_array"))
    env.reset(seed=2)
    for _ in range(3):
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            break
    frames: Any = env.render()
    assert len({frame.shape for frame in frames}) == 1
    assert all(frame.dtype == np.uint8 and frame.shape[-1] == 3 for frame in frames)
    assert env.metadata["render_fps"] > 0


@pytest.mark.parametrize("name", NAMES)
def test_the_options_of_reset_start_every_member_of_a_group_as_they_start_one_environment(name: str) -> None:
    panel: dict[str, Any] = (
        {"panel": "standard-v3:train"} if name == "alfworld" else {}
    )  # of a generated house the id alone says too little
    env = gym.make(IDS[name], **panel)
    task_id = env.reset(seed=8)[1]["task_id"]
    group = GroupEnv(name, size=2, **panel)
    options = {"task_id": task_id}
    expected, _ = env.reset(options=options)
    for observation, info in group.reset(options=options):
        assert info["task_id"] == task_id
        assert observation == expected
    with pytest.raises(ConfigError, match="given twice"):
        group.reset(task_id=task_id, options=options)


@pytest.mark.parametrize("text", ["", "a\n\nb", "word " * 5_000, "x" * 5_000, "é 日本 \x1b[31m\0 \ud800", "\n" * 500])
def test_any_text_has_a_frame_of_one_size(text: str) -> None:
    frame = text_frame(text)
    assert frame.shape == (HEIGHT, WIDTH, 3)
    assert frame.dtype == np.uint8


def test_a_frame_shows_the_end_of_a_long_text() -> None:
    long = "\n".join(map(str, range(100)))
    assert (text_frame(long) != text_frame(long + "\nthe end")).any()
    assert (text_frame("a") != text_frame("b")).any()


def told(env: Any, action: str) -> Any:
    observation, reward, terminated, truncated, info = env.step(action)
    return observation, reward, terminated, truncated, info


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("name", NAMES)
def test_a_copy_goes_on_as_the_original_does_and_alone(name: str, way: str) -> None:
    env = creditflow.make(name)
    env.action_space.seed(7)
    fresh = COPIES[way](env)  # before the first episode
    assert fresh.action_space.sample() == env.action_space.sample()
    assert fresh.reset(seed=6) == env.reset(seed=6)
    for _ in range(2):
        env.step(env.unwrapped.oracle.optimal_actions(env.unwrapped.get_state())[0])  # type: ignore[attr-defined]  # known at run time
    other = COPIES[way](env)
    state = env.unwrapped.get_state()  # type: ignore[attr-defined]  # known at run time
    assert other.unwrapped.get_state() == state
    assert other.spec == env.spec
    assert other.unwrapped.num_starts == env.unwrapped.num_starts  # type: ignore[attr-defined]  # known at run time
    action = env.unwrapped.oracle.optimal_actions(state)[0]  # type: ignore[attr-defined]  # known at run time
    result = told(env, action)
    assert other.unwrapped.get_state() == state  # the copy has stayed where it was
    assert told(other, action) == result
    assert other.reset() == env.reset()  # the same random numbers


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("name", NAMES)
def test_a_copy_of_an_ended_episode_has_ended(name: str, way: str) -> None:
    env = creditflow.make(name, max_steps=1)
    env.reset(seed=1)
    env.step(env.action_space.sample())
    assert COPIES[way](env).unwrapped.is_over


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("scheme", ["graphgpo", "grouptd", "hgpo"])
@pytest.mark.parametrize("name", NAMES)
def test_dense_rewards_are_copied_with_their_environment(name: str, scheme: str, way: str) -> None:
    env = DenseReward(creditflow.make(name), scheme, gamma=0.9)
    env.reset(seed=3)
    other = COPIES[way](env)
    action = env.action_space.sample()
    assert other.step(action)[:4] == env.step(action)[:4]
