"""Masks, lists of tasks and seeds choose which environment begins what."""

from __future__ import annotations

from typing import Any

import numpy as np

from creditflow.envs.sokoban.vector import SokobanVectorEnv

OPTIONS: dict[str, Any] = {"obs_mode": "grid", "action_mode": "discrete", "panel": "small-v1:train"}


def test_a_mask_resets_some_and_leaves_the_others_as_they_are():
    envs = SokobanVectorEnv(4, autoreset_mode="Disabled", **OPTIONS)
    envs.reset(seed=1)
    envs.step([0, 1, 2, 3])
    before = [envs.get_state(number) for number in range(4)]
    mask = np.array([False, True, False, True])
    observed, infos = envs.reset(options={"reset_mask": mask})
    after = [envs.get_state(number) for number in range(4)]
    assert [old == new for old, new in zip(before, after, strict=True)] == (~mask).tolist()
    assert infos["_task_id"].tolist() == mask.tolist()
    assert infos["task_id"][0] is None
    assert len(observed) == 4


def test_a_list_of_tasks_gives_each_environment_its_own():
    envs = SokobanVectorEnv(5, **OPTIONS)
    ids = list(envs.task_ids[10:15])
    _, infos = envs.reset(options={"task_ids": ids})
    assert infos["task_id"].tolist() == ids == [task.task_id for task in envs.tasks]


def test_a_repeated_seed_repeats_everything():
    envs = SokobanVectorEnv(4, max_steps=5, **OPTIONS)
    rng = np.random.default_rng(2)
    actions = rng.integers(0, 4, (40, 4))
    runs = []
    for _ in range(2):
        envs.reset(seed=9)
        runs.append([envs.step(action)[0] for action in actions])
    assert np.array_equal(runs[0], runs[1])


def test_the_seed_of_the_environment_is_that_of_the_first_board():
    envs = SokobanVectorEnv(2, **OPTIONS)
    envs.reset(seed=[5, 6])
    assert envs.np_random_seed == 5
    envs.reset(seed=[7, 8], options={"reset_mask": np.array([False, True])})
    assert envs.np_random_seed == 5
    envs.reset(seed=[None, 9])
    assert envs.np_random_seed == 5
    envs.reset(seed=3)
    assert envs.np_random_seed == 3


def test_the_oracle_is_there_on_demand():
    envs = SokobanVectorEnv(2, **OPTIONS)
    envs.reset(seed=0)
    plan = envs.oracle.solution(envs.get_state(0))
    for move in plan:
        _, _, terminations, _, _ = envs.step([("up", "down", "left", "right").index(move), 0])
    assert terminations[0]
