"""Tasks by id, content, file and seed, and vector environments of Sokoban."""

from __future__ import annotations

import numpy as np
import pytest

import creditflow
from creditflow.envs.errors import ConfigError, UnknownTaskError
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


def test_vector_observations_of_arrays_are_stacked():
    with pytest.raises(ConfigError, match="vectorization_mode must be"):
        creditflow.make_vec("sokoban", 3, vectorization_mode="vectors")
    vector = creditflow.make_vec("sokoban", 3, obs_mode="planes", action_mode="discrete")
    obs, _ = vector.reset(seed=0)
    assert obs.shape == (3, 4, 8, 8)
    obs, rewards, *_ = vector.step(vector.action_space.sample())
    assert obs.dtype == np.uint8
    assert rewards.shape == (3,)
    vector.close()
