"""The callback of Stable-Baselines3 changes a rollout's rewards, advantages and returns as the wrapper's rewards would."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from helpers.worlds.sokoban_vector import sokoban_vector

from creditflow.envs.errors import ConfigError
from creditflow.wrappers import DenseReward, PotentialStore, VectorDenseReward

pytest.importorskip("stable_baselines3", reason="needs the extra [sb3]")
pytestmark = pytest.mark.sb3

LEVEL = "#####\n#@$.#\n#   #\n#####"
OPTIONS: dict[str, Any] = {"level": LEVEL, "max_steps": 6, "obs_mode": "planes", "action_mode": "discrete"}


def make_model(envs: Any, **options: Any) -> Any:
    from stable_baselines3 import PPO

    return PPO("MlpPolicy", envs, gamma=0.9, n_steps=16, batch_size=32, n_epochs=1, seed=0, device="cpu", **options)


def adapted(scheme: str = "", **options: Any) -> Any:
    from creditflow.train.adapters.sb3 import INFO_KEYS, VectorEnvAdapter

    envs: Any = sokoban_vector(4, autoreset_mode="SameStep", **OPTIONS)
    return VectorEnvAdapter(VectorDenseReward(envs, scheme, **options) if scheme else envs, info_keys=INFO_KEYS)


def single(scheme: str = "", **options: Any) -> Any:
    from stable_baselines3.common.env_util import make_vec_env

    def make() -> Any:
        env = gym.make("creditflow/Sokoban-v0", **OPTIONS)
        return DenseReward(env, scheme, **options) if scheme else env

    return make_vec_env(make, n_envs=4)


def learned() -> Any:
    """A version of a potential that one rollout has taught."""
    from creditflow.train.adapters.sb3 import HindsightCallback

    callback = HindsightCallback("gigpo")
    make_model(adapted()).learn(256, callback=callback)
    assert callback.shaping is not None
    store = callback.shaping.store
    assert isinstance(store, PotentialStore)
    return store.snapshot()


@pytest.mark.parametrize("make_envs", [adapted, single])
def test_the_rollout_is_that_of_the_wrapper_with_the_same_version(make_envs: Any) -> None:
    from creditflow.train.adapters.sb3 import HindsightCallback

    version = learned()
    assert version.values

    def rollout(envs: Any, callback: Any = None) -> Any:
        model = make_model(envs)  # seeds torch, so each one learns before the next is made
        model.learn(16 * model.n_envs, callback=callback)
        return model.rollout_buffer

    plain = rollout(make_envs(), HindsightCallback("gigpo", store=version))
    wrapped = rollout(make_envs("gigpo", gamma=0.9, truncation="bootstrap", store=version))
    for name in ("rewards", "advantages", "returns"):
        np.testing.assert_allclose(getattr(plain, name), getattr(wrapped, name), atol=1e-5)
    assert np.abs(plain.rewards - rollout(make_envs()).rewards).max() > 0.01


def test_it_learns_from_rollout_to_rollout_and_shapes_the_first_one_already() -> None:
    from creditflow.train.adapters.sb3 import HindsightCallback

    callback = HindsightCallback("grouptd", window=20)
    first = make_model(adapted())
    first.learn(64, callback=callback)
    sparse = make_model(adapted())
    sparse.learn(64)
    assert not np.array_equal(first.rollout_buffer.rewards, sparse.rollout_buffer.rewards)
    assert callback.shaping is not None
    versions = [callback.shaping.store.snapshot().version]
    first.learn(128, callback=callback, reset_num_timesteps=False)  # goes on within the episodes
    versions.append(callback.shaping.store.snapshot().version)
    assert 0 < versions[0] < versions[1]


def test_a_potential_over_features_reads_the_observations() -> None:
    from creditflow.train.adapters.sb3 import HindsightCallback

    callback = HindsightCallback("features", size=64)
    make_model(single()).learn(192, callback=callback)
    assert callback.shaping is not None
    assert callback.shaping.store.snapshot().version >= 1


def test_what_it_cannot_shape_is_refused() -> None:
    from stable_baselines3 import DQN
    from stable_baselines3.common.vec_env import VecNormalize

    from creditflow.train.adapters.sb3 import HindsightCallback, VectorEnvAdapter

    cases: list[tuple[Any, str]] = [
        (DQN("MlpPolicy", single(), buffer_size=100, device="cpu"), "rollout buffer"),
        (make_model(VecNormalize(single(), norm_obs=False)), "norm_reward=False"),
        (make_model(single("grouptd", gamma=0.9)), "remove DenseReward"),
        (make_model(adapted("grouptd", gamma=0.9)), "remove VectorDenseReward"),
        (
            make_model(VectorEnvAdapter(sokoban_vector(4, autoreset_mode="SameStep", **OPTIONS))),
            "lack task_id and state_key",
        ),
    ]
    for model, message in cases:
        with pytest.raises(ConfigError, match=message):
            model.learn(32, callback=HindsightCallback("grouptd"))
