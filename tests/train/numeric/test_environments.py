"""Environments and potentials for numeric reinforcement learning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from creditflow.envs.errors import ConfigError
from creditflow.envs.tasks import parse_panel_spec
from creditflow.train.numeric.environments import (
    REWARDS,
    distance_potentials,
    make_envs,
    success_by_task,
)
from creditflow.train.numeric.study import interval, summary

PANEL = "small-v1:train"


@pytest.mark.parametrize("reward", REWARDS)
def test_every_reward_has_its_environment(reward):
    envs: Any = make_envs(reward, 8, panel=PANEL, gamma=0.9)
    obs, _ = envs.reset(seed=0)
    assert obs.shape == (8, 4, 6, 6)
    rng = np.random.default_rng(0)
    for _ in range(80):
        _, rewards, _, _, infos = envs.step(rng.integers(0, 4, 8))
        assert np.allclose(rewards, infos.get("raw_reward", rewards) + infos.get("shaping", 0.0))
    if reward == "rewardflow":
        assert envs.store.snapshot().version >= 1


def test_the_exact_potential_is_minus_the_distance():
    potentials = distance_potentials(PANEL, 30)
    lengths = {row.task_id: row.strata["length"] for row in parse_panel_spec("sokoban", PANEL)}
    envs = make_envs("sparse", 16, panel=PANEL, gamma=1.0)
    _, infos = envs.reset(seed=3)
    for task_id, key in zip(infos["task_id"], infos["state_key"], strict=True):
        assert potentials.of(task_id, key) == -lengths[task_id] / 30


def test_success_is_by_task_whatever_happens_after_the_first_episode():
    rows = parse_panel_spec("sokoban", PANEL)
    short = [row.task_id for row in rows if row.strata["length"] == 2][:5]
    rng = np.random.default_rng(0)
    solved = np.mean([success_by_task(lambda obs: rng.integers(0, 4, len(obs)), PANEL, short) for _ in range(20)])
    assert 0.2 < solved < 1.0
    assert not success_by_task(
        lambda obs: np.zeros(len(obs), dtype=np.int64), PANEL, [row.task_id for row in rows if row.strata["length"] > 6]
    ).any()


def test_intervals_are_over_seeds_and_differences_are_paired():
    assert interval(np.array([0.1, 0.2, 0.3])) == [0.2, -0.0484, 0.4484]
    runs = [[[0.1, 0.0]] * 10, [[0.3, 0.2]] * 10]
    better = [[[0.2, 0.1]] * 10, [[0.4, 0.3]] * 10]
    rows = summary({"ppo.py": {"sparse": runs, "rewardflow": better}})
    assert rows[1]["area_trained_minus_sparse"] == [0.1, 0.1, 0.1]
    assert "area_trained_minus_sparse" not in rows[0]


def test_wrong_arguments():
    with pytest.raises(ConfigError, match="did you mean 'sparse'"):
        make_envs("sparce", 2, panel=PANEL, gamma=0.9)
