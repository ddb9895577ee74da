"""Dense rewards in hindsight for Stable-Baselines3: a callback that shapes a rollout when it is complete."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.vec_env import VecNormalize
from stable_baselines3.common.vec_env.base_vec_env import VecEnvWrapper

from creditflow.envs.errors import ConfigError
from creditflow.wrappers.dense_reward import Truncation, shaping_wrapper
from creditflow.wrappers.feature_potential import Store, Version
from creditflow.wrappers.hindsight import RolloutShaping

__all__ = ["INFO_KEYS", "HindsightCallback"]

INFO_KEYS: Final = ("task_id", "state_key", "text_key", "success", "score", "action_valid", "action_effective")


class HindsightCallback(BaseCallback):
    """Add a potential's differences to the rewards of every rollout of PPO or A2C, before it learns from them.

    The potential has then seen the rollout itself. The environments have none of their own (no ``DenseReward``). A vector
    environment passes what is needed on: ``VectorEnvAdapter(envs, info_keys=INFO_KEYS)``.

    Args:
        scheme, beta, store, **parameters: as for ``relabel``. γ is that of the algorithm.
        truncation: "bootstrap", as these algorithms do at an environment's limit of turns; or "end".

    Raises:
        ConfigError: when training starts: an algorithm without a rollout buffer, rewards that are normalised or already shaped, or
            environments whose infos lack task and state.
    """

    def __init__(
        self,
        scheme: str,
        *,
        beta: float = 1.0,
        truncation: Truncation = "bootstrap",
        store: Store | Version | None = None,
        **parameters: Any,
    ) -> None:
        super().__init__()
        self._options: dict[str, Any] = {"beta": beta, "truncation": truncation, "store": store, **parameters}
        self._scheme = scheme
        self.shaping: RolloutShaping | None = None

    def _on_training_start(self) -> None:
        model = self.model
        if not isinstance(model, OnPolicyAlgorithm) or not isinstance(model.rollout_buffer, RolloutBuffer):
            raise ConfigError(
                f"hindsight rewards need an algorithm with a rollout buffer (PPO, A2C), got {type(model).__name__}; wrap its "
                "environments in DenseReward instead"
            )
        if self.shaping is None:
            self.shaping = RolloutShaping(model.n_envs, self._scheme, gamma=model.gamma, **self._options)
        env = self._environments()
        if bool(np.all(model._last_episode_starts)):  # else learn() goes on where it stopped
            observations: Any = model._last_obs
            for number, info in enumerate(env.reset_infos):
                self.shaping.begin(number, _checked(info), observations[number])

    def _environments(self) -> Any:
        """The vector environment inside of its wrappers."""
        env: Any = self.training_env
        while isinstance(env, VecEnvWrapper):
            if isinstance(env, VecNormalize) and env.norm_reward:
                raise ConfigError(
                    "VecNormalize scales the rewards, and a potential is not in its units: pass norm_reward=False"
                )
            env = env.venv
        for layer in getattr(env, "envs", [getattr(env, "env", None)]):
            if wrapper := shaping_wrapper(layer):
                raise ConfigError(f"the environments have shaped rewards already: remove {wrapper}, or this callback")
        return env

    def _on_step(self) -> bool:
        assert self.shaping is not None  # noqa: S101 - _on_training_start has set it
        env, step = self._environments(), self.locals
        for number, info in enumerate(step["infos"]):
            over, after = bool(step["dones"][number]), step["new_obs"][number]
            cut = over and bool(info.get("TimeLimit.truncated", False))
            last = info["terminal_observation"] if over else after
            action, reward = step["actions"][number], float(step["rewards"][number])
            self.shaping.step(number, action, reward, over and not cut, cut, _checked(info), last)
            if over:
                self.shaping.begin(number, _checked(env.reset_infos[number]), after)
        return True

    def _on_rollout_end(self) -> None:
        assert self.shaping is not None  # noqa: S101 - _on_training_start has set it
        model: Any = self.model
        buffer: RolloutBuffer = model.rollout_buffer
        buffer.rewards += self.shaping.shaping().astype(np.float32)
        buffer.compute_returns_and_advantage(last_values=self.locals["values"], dones=self.locals["dones"])


def _checked(info: dict[str, Any]) -> dict[str, Any]:
    if missing := [key for key in ("task_id", "state_key") if key not in info]:
        raise ConfigError(
            f"the infos of the environments lack {' and '.join(missing)}: play an environment of creditflow's, wrap another one in "
            "ForeignEnv, and pass a vector environment on with VectorEnvAdapter(envs, info_keys=INFO_KEYS)"
        )
    return info
