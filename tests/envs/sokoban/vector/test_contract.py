"""Gymnasium's contract for vector environments, in every autoreset mode and with every observation, without a warning."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, VectorEnv

MODES = ("NextStep", "SameStep", "Disabled")
OBSERVATIONS: dict[str, dict[str, Any]] = {
    "text": {},
    "grid": {"obs_mode": "grid", "action_mode": "discrete"},
    "planes": {"obs_mode": "planes", "action_mode": "discrete"},
    "rgb": {"obs_mode": "rgb", "action_mode": "discrete", "tile_size": 4},
    "dict": {"obs_mode": "dict", "tile_size": 4},
}


def make(mode: str, options: dict[str, Any]) -> VectorEnv[Any, Any, Any]:
    return gym.make_vec(
        "creditflow:creditflow/Sokoban-v0", num_envs=4, vectorization_mode="vector_entry_point", autoreset_mode=mode, max_steps=5,
        panel="easy-v1:train", **options,
    )  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("options", OBSERVATIONS.values(), ids=OBSERVATIONS)
def test_results_lie_in_the_spaces_have_the_dtypes_and_repeat_by_their_seed(options, mode):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one, other = make(mode, options), make(mode, options)
        assert one.metadata["autoreset_mode"] == AutoresetMode(mode)
        assert one.spec is not None
        one.action_space.seed(0)
        results: tuple[Any, ...] = one.reset(seed=6)
        again: tuple[Any, ...] = other.reset(seed=6)
        for _ in range(25):
            assert one.observation_space.contains(results[0])
            assert data_equivalence(results[0], again[0], exact=True)
            assert data_equivalence(dict(results[-1]), dict(again[-1]), exact=True)
            actions = one.action_space.sample()
            results, again = one.step(actions), other.step(actions)
            _, rewards, terminations, truncations, infos = results
            assert (rewards.dtype, terminations.dtype, truncations.dtype) == (np.float64, np.bool_, np.bool_)
            assert rewards.shape == terminations.shape == truncations.shape == (4,)
            assert not (terminations & truncations).any()
            over = terminations | truncations
            assert ("final_obs" in infos) == (mode == "SameStep" and over.any())
            if mode == "SameStep" and over.any():
                assert infos["_final_obs"].tolist() == infos["_final_info"].tolist() == over.tolist()
                for number in np.flatnonzero(over):
                    assert one.single_observation_space.contains(infos["final_obs"][number])
            if mode == "Disabled" and over.any():
                results, again = (env.reset(options={"reset_mask": over.copy()}) for env in (one, other))
        one.close()
        assert one.closed
