"""The Stable-Baselines3 example: task draws and learning curves without it, PPO with it."""

from __future__ import annotations

import numpy as np
import pytest

import creditflow
from creditflow.envs.errors import ConfigError
from creditflow.train.adapters.sb3.training import (
    ENVS,
    VARIANTS,
    LearningCurve,
    PlayTasks,
    example_tasks,
    learn_ppo,
    windowed,
)
from creditflow.wrappers.dense_reward import DenseReward
from creditflow.wrappers.recorder import Recorder
from creditflow.wrappers.trajectory import Trajectory


def test_finished_episodes_of_drawn_tasks_are_collected():
    finished: list[Trajectory] = []
    tasks = example_tasks(3)
    inner = Recorder(creditflow.make("sokoban", action_mode="discrete", max_steps=4))
    env = PlayTasks(DenseReward(inner, "rewardflow", gamma=0.9), tasks, finished, np.random.default_rng(0))
    for _ in range(6):
        env.reset()
        done = False
        while not done:
            _, _, terminated, truncated, _ = env.step(np.int64(1))
            done = terminated or truncated
    assert len(finished) == 6
    assert {m.task_id for m in finished} <= set(tasks)
    assert len({m.task_id for m in finished}) > 1


def test_a_recorder_is_needed():
    with pytest.raises(ConfigError, match="Recorder"):
        PlayTasks(creditflow.make("sokoban"), ["x"], [], np.random.default_rng(0))


def test_windows_hold_the_episodes_that_ended_in_them():
    run = LearningCurve(steps=[1, 2, 9, 10], success=[True, False, True, True])
    np.testing.assert_allclose(windowed([run], 10, 2), [[0.5, 1.0]])


@pytest.mark.sb3
@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_ppo_runs_on_every_variant(variant):
    pytest.importorskip("stable_baselines3", reason="needs the extra [sb3]")
    learned = learn_ppo(example_tasks(2), variant, steps=ENVS * 128 * 3, seed=0)
    assert len(learned.success) > 10
    assert learned.version == (0 if VARIANTS[variant] is None else 3)
