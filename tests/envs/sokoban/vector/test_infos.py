"""Infos that are computed when they are read behave as dictionaries, and tell the step that they came with."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from creditflow.envs.sokoban.vector import SokobanVectorEnv

OPTIONS: dict[str, Any] = {"panel": "small-v1:train", "obs_mode": "grid", "action_mode": "discrete", "max_steps": 3}


@pytest.fixture
def envs():
    made = SokobanVectorEnv(4, autoreset_mode="SameStep", **OPTIONS)
    made.reset(seed=3)
    return made


def plain(infos):
    return {key: value.tolist() if isinstance(value, np.ndarray) and key != "final_obs" else str(value)
            for key, value in infos.items()}  # fmt: skip


def test_infos_tell_their_own_step_however_late_they_are_read(envs):
    other = SokobanVectorEnv(4, autoreset_mode="SameStep", **OPTIONS)
    other.reset(seed=3)
    rng = np.random.default_rng(0)
    late, at_once = [], []
    for _ in range(20):
        actions = rng.integers(0, 4, 4)
        late.append(envs.step(actions))
        result = other.step(actions)
        at_once.append(plain(result[4]))
        for array in result[:4]:
            array[...] = 1  # nor does it matter what is done to the results
        late[-1][2][...] = True
    assert [plain(result[4]) for result in late] == at_once


def test_infos_are_dictionaries(envs):
    def fresh():
        made = SokobanVectorEnv(2, **OPTIONS)
        return made.reset(seed=0)[1]

    keys = list(dict(fresh()))
    assert keys[:2] == ["task_id", "_task_id"]
    assert (
        len(fresh()) == len(keys) == len({**fresh()}) == len(fresh().copy()) == len(fresh() | {}) == len({} | fresh())
    )
    assert list(fresh()) == keys == list(fresh().keys()) == [key for key, _ in fresh().items()]
    assert list(reversed(fresh())) == keys[::-1]
    assert "score" in fresh()
    assert "final_obs" not in fresh()
    assert fresh().get("nothing", 3) == 3
    assert fresh().get("score").tolist() == [0.0, 0.0]
    assert fresh().setdefault("score", 5).tolist() == [0.0, 0.0]
    assert fresh().pop("elapsed_steps").tolist() == [0, 0]
    infos = fresh()
    del infos["score"]
    assert "score" not in infos
    with pytest.raises(KeyError):
        infos["score"]
    infos["score"] = 1
    assert infos["score"] == 1
    infos.clear()
    assert not infos
    assert infos == {}
    assert infos != fresh()
    infos, other = fresh(), fresh()
    for one in (infos, other):
        one.update(dict.fromkeys(one, 1))
    assert infos == other
    other["score"] = 2
    assert infos != other
    assert fresh() != {}
    for twin in (copy.deepcopy(fresh()), copy.copy(fresh()), fresh().copy()):
        assert type(twin) is dict
        assert repr(twin) == repr(fresh())


def test_gymnasiums_wrappers_for_vector_environments_run_on_it(envs):
    wrapped = gym.wrappers.vector.RecordEpisodeStatistics(gym.wrappers.vector.DictInfoToList(envs).env)
    wrapped.reset(seed=0)
    for _ in range(3):
        infos = wrapped.step(np.zeros(4, dtype=int))[4]
    assert infos["episode"]["l"].tolist() == [3, 3, 3, 3]
    listed = gym.wrappers.vector.DictInfoToList(SokobanVectorEnv(2, **OPTIONS))
    assert listed.reset(seed=0)[1][1]["elapsed_steps"] == 0


@pytest.mark.parametrize("obs_mode", ["grid", "planes", "rgb"])
def test_observations_are_the_callers_own(obs_mode):
    envs = SokobanVectorEnv(2, **{**OPTIONS, "obs_mode": obs_mode, "tile_size": 4})
    first = envs.reset(seed=0)[0]
    start, states = first.copy(), [envs.get_state(number) for number in range(2)]
    for action in range(2):
        envs.step([action, action])
    assert np.array_equal(first, start)
    envs.reset(seed=0)[0][...] = 0
    assert [envs.get_state(number) for number in range(2)] == states
