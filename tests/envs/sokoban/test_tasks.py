"""Tasks by id, content, file and seed, and vector environments of Sokoban."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import creditflow
from creditflow.envs.errors import UnknownTaskError
from creditflow.envs.sokoban import SokobanEnv
from creditflow.envs.tasks import load_panel

CORRIDOR = "#######\n#@ $ .#\n#######"
ROOM = "#######\n#  .  #\n# $ @ #\n#  $ .#\n#######"


def test_a_task_can_be_given_by_id_content_or_text():
    env = creditflow.make("sokoban")
    row = load_panel("sokoban", "standard-v1").split("train")[5]
    by_id = env.reset(options={"task_id": row.task_id})
    assert by_id[1]["task_id"] == row.task_id
    assert env.reset(options={"task": row.locator}) == by_id
    assert env.reset(options={"task": row.locator["xsb"]}) == by_id


def test_levels_of_a_file_can_be_named(tmp_path):
    (tmp_path / "some.txt").write_text(f"; 3\n{CORRIDOR}\n\n; 9\n{ROOM}\n")
    env = SokobanEnv(levels=str(tmp_path))
    _, info = env.reset(options={"task_id": "some:9"})
    assert env.task.content == {"xsb": ROOM}
    assert env.reset(options={"task_id": info["task_id"]})[1] == info
    assert len(env.tasks.task_ids()) == 2


def test_an_unknown_task_is_an_error_that_names_the_alternatives():
    with pytest.raises(UnknownTaskError, match="not among the 300 tasks"):
        creditflow.make("sokoban").reset(options={"task_id": "sokoban1:" + "0" * 32})
    env = creditflow.make("sokoban", generator={})
    with pytest.raises(UnknownTaskError, match="seed"):
        env.reset(options={"task_id": "sokoban1:" + "0" * 32})


PROBE = """
import json, sys, creditflow
env = creditflow.make("sokoban", **json.loads(sys.argv[1]))
print(json.dumps([[env.reset(seed=seed)[0], env.reset(seed=seed)[1]["task_id"]] for seed in range(12)]))
"""


@pytest.mark.parametrize("kwargs", [{}, {"generator": {"boxes": 2, "min_length": 5}}], ids=["panel", "generator"])
def test_a_seed_gives_the_same_task_in_another_process_under_any_hash_seed(kwargs):
    source = str(Path(creditflow.__file__).parents[1])
    runs = []
    for hash_seed in ("0", "4242"):
        variables = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": source}
        command = [sys.executable, "-c", PROBE, json.dumps(kwargs)]
        runs.append(subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout)
    env = creditflow.make("sokoban", **kwargs)
    here = [[env.reset(seed=seed)[0], env.reset(seed=seed)[1]["task_id"]] for seed in range(12)]
    assert json.loads(runs[0]) == json.loads(runs[1]) == here


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_vector_environments_reset_and_step_like_single_ones(mode):
    vector: Any = creditflow.make_vec("sokoban", 3, vectorization_mode=mode)
    singles = [creditflow.make("sokoban") for _ in range(3)]
    try:
        obs, infos = vector.reset(seed=[5, 6, 7])
        expected = [env.reset(seed=seed) for env, seed in zip(singles, (5, 6, 7), strict=True)]
        assert list(obs) == [one for one, _ in expected]
        assert list(infos["task_id"]) == [info["task_id"] for _, info in expected]
        for actions in (("up", "down", "left"), ("right", "nonsense", "up"), ("down", "down", "left")):
            obs, rewards, _, _, infos = vector.step(actions)
            stepped = [env.step(action) for env, action in zip(singles, actions, strict=True)]
            assert list(obs) == [one[0] for one in stepped]
            assert list(rewards) == [one[1] for one in stepped]
            for key in ("state_key", "action_valid", "invalid_reason", "boxes_on_target", "score"):
                assert list(infos[key]) == [one[4][key] for one in stepped]
    finally:
        vector.close()


def test_vector_observations_of_arrays_are_stacked():
    vector = creditflow.make_vec("sokoban", 3, obs_mode="planes", action_mode="discrete")
    obs, _ = vector.reset(seed=0)
    assert obs.shape == (3, 4, 8, 8)
    obs, rewards, *_ = vector.step(vector.action_space.sample())
    assert obs.dtype == np.uint8
    assert rewards.shape == (3,)
    vector.close()


def test_a_group_shares_its_start_by_task_id():
    task_id = load_panel("sokoban", "standard-v1").split("train")[0].task_id
    vector = creditflow.make_vec("sokoban", 4)
    obs, infos = vector.reset(options={"task_id": task_id})
    assert set(obs) == {obs[0]}
    assert set(infos["task_id"]) == {task_id}
    vector.close()
