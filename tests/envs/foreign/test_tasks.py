"""Tasks of foreign environments: seeds, named and described."""

from __future__ import annotations

import gymnasium as gym
import pytest
from helpers.toy_text import CLIFF, TAXI, limited
from helpers.worlds.mission_room import Room

from creditflow.envs.errors import DataError, UnknownTaskError
from creditflow.envs.foreign.env import ForeignEnv, problem_name


@pytest.mark.parametrize(
    "task", [{}, 7, "seed", {"seed": -1}, {"seed": True}, {"seed": 1.0}, {"seed": 2**63}, {"seed": 1, "level": 2}, [1], {"env": TAXI, "seed": 1},
             {"seed": 1, "options": [1]}, {"seed": 1, "options": {"a": {1}}}, {"seed": 1, "options": 0}, {"seed": 1, "options": {1: 2}}]
)  # fmt: skip
def test_malformed_tasks_are_refused(task):
    env = ForeignEnv(limited(CLIFF), success="terminated")
    with pytest.raises(DataError):
        env.reset(options={"task": task})


@pytest.mark.parametrize("task_id", [CLIFF, f"{CLIFF}:seed=01", f"{TAXI}:seed=1", f"{CLIFF}:seed=-1", "7"])
def test_unknown_ids_are_refused(task_id):
    env = ForeignEnv(limited(CLIFF), success="terminated")
    with pytest.raises(UnknownTaskError, match=f"an id such as {CLIFF}:seed=7"):
        env.reset(options={"task_id": task_id})


def test_the_name_of_a_problem_tells_its_arguments_apart():
    names = [
        problem_name(env)
        for env in (
            gym.make("FrozenLake-v1"), gym.make("FrozenLake-v1", render_mode="ansi"), gym.make("FrozenLake-v1", map_name="4x4"),
            gym.make("FrozenLake-v1", map_name="8x8"), gym.make("FrozenLake-v1", is_slippery=False), Room(),
        )
    ]  # fmt: skip
    assert names[:3] == ["FrozenLake-v1"] * 3
    assert len(set(names)) == 4
    assert names[-1] == "Room"
    assert all(name.startswith("FrozenLake-v1+") for name in names[3:5])
    assert ForeignEnv(Room(), name="cellar", success="reported").reset(seed=1)[1]["task_id"] == "cellar:seed=1"
