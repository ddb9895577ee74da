"""Gymnasium's RecordVideo writes an episode of every environment to a file."""

from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.wrappers import RecordVideo

import creditflow

pytestmark = pytest.mark.data


@pytest.mark.parametrize("name", ["sokoban", "alfworld", "webshop", "wikisearch"])
def test_an_episode_is_a_video(name: str, tmp_path: Path) -> None:
    pytest.importorskip("moviepy")
    env: gym.Env[Any, Any] = creditflow.make(name, render_mode="rgb_array")
    env = RecordVideo(env, str(tmp_path / "videos"), episode_trigger=lambda _: True)
    env.reset(seed=1)
    for _ in range(3):
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            break
    env.close()
    (video,) = (tmp_path / "videos").iterdir()
    assert video.read_bytes()[4:8] == b"ftyp"  # the first box of an MP4 file
