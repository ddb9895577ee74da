"""Parity with gym-sokoban 0.0.6, step for step, until an episode's first end."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest

import creditflow
from creditflow.envs.sokoban import level_oracle, parse_level

# gym-sokoban's one-pixel-a-cell picture, by cell code
TINY = np.array(
    [
        [int(colour[i : i + 2], 16) for i in (0, 2, 4)]
        for colour in ("000000", "f3f8ee", "fe7e7d", "fe5f38", "8e7938", "a0d438", "dbd438")
    ],
    dtype=np.uint8,
)


def replay(record):
    """Yield (recorded step, our observation, reward, terminated, truncated, info, env) until the first end."""
    env = creditflow.make(
        "sokoban",
        level=record["xsb"],
        obs_mode="grid",
        action_mode="discrete",
        n_actions=9,
        reward="gym_sokoban",
        max_steps=record["max_steps"],
    )
    env.reset()
    for step in record["steps"]:
        yield step, *env.step(step["a"]), env.unwrapped
        if step["done"]:
            return


def test_every_room_state_is_gym_sokobans(transcript):
    for step, obs, *_ in replay(transcript):
        assert np.array_equal(np.where(obs == 6, 5, obs), step["room_state"])


def test_every_reward_is_gym_sokobans(transcript):
    for step, _, reward, *_ in replay(transcript):
        assert reward == pytest.approx(step["reward"], abs=1e-9, rel=0)


def test_player_and_boxes_on_target_are_gym_sokobans(transcript):
    for step, obs, _, _, _, info, _ in replay(transcript):
        assert np.argwhere(obs >= 5).tolist() == [step["player"]]
        assert info["boxes_on_target"] == step["boxes_on_target"]


def test_moved_flags_are_gym_sokobans(transcript):
    for step, _, _, _, _, info, _ in replay(transcript):
        assert info["player_moved"] == step["info"].get("action.moved_player", False)
        assert info["moved_box"] == step["info"].get("action.moved_box", False)
        assert info["action_effective"] == info["player_moved"]


def test_done_is_terminated_or_truncated_and_solving_wins(transcript):
    for step, _, _, terminated, truncated, info, _ in replay(transcript):
        assert (terminated or truncated) == step["done"]
        assert terminated == info["success"] == step["info"].get("all_boxes_on_target", False)
        assert not (terminated and truncated)


def test_images_of_one_pixel_per_cell_have_equal_hashes(transcript):
    for step, obs, *_ in replay(transcript):
        assert hashlib.sha256(TINY[obs].tobytes()).hexdigest()[:16] == step["tiny_sha"]


def test_the_oracle_agrees_with_every_episode(transcript):
    level = parse_level(transcript["xsb"])
    start = level_oracle(level).moves_left(level.player, level.boxes)
    assert transcript.get("optimal_moves") in (None, start)
    left = math.inf if start < 0 else start
    for _, _, _, terminated, _, _, env in replay(transcript):
        after = env.oracle.distance(env.get_state())
        assert after >= left - 1  # infinity stays infinity: no move revives a dead state
        assert (after == 0) == terminated
        left = after
