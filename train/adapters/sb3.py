"""Stable-Baselines3: a Gymnasium vector environment as its ``VecEnv``, and a callback that shapes complete rollouts in hindsight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.vec_env import VecEnv, VecNormalize
from stable_baselines3.common.vec_env.base_vec_env import VecEnvWrapper

from creditflow.envs.errors import ConfigError
from creditflow.wrappers.dense_reward import Truncation, shaping_wrapper
from creditflow.wrappers.feature_potential import Store, Version
from creditflow.wrappers.hindsight import INFO_KEYS, RolloutShaping

__all__ = ["INFO_KEYS", "HindsightCallback", "VectorEnvAdapter"]


class VectorEnvAdapter(VecEnv):
    """Stable-Baselines3's interface to a Gymnasium vector environment.

    Args:
        env: a vector environment with ``autoreset_mode="SameStep"``, which is what Stable-Baselines3 expects: the
            observation after the end of an episode is the first of the next, and the last one stands in its info.
            Its observations must be the caller's own (``copy=True``, the default): Stable-Baselines3 stores an observation after the
            step that follows it.
        info_keys: keys of Gymnasium's infos that are passed on, into the info of every environment. Where an episode ended, the
            info is that of its last state, and ``reset_infos`` has that of the next one's first, as in Stable-Baselines3's own.

    Raises:
        ConfigError: another mode, or observations that the next step changes in place.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], info_keys: Sequence[str] = ()) -> None:
        mode = env.metadata.get("autoreset_mode")
        if mode != AutoresetMode.SAME_STEP:
            raise ConfigError(f"Stable-Baselines3 needs an environment made with autoreset_mode='SameStep', got {mode}")
        if not getattr(env.unwrapped, "copy", True):
            raise ConfigError(
                "Stable-Baselines3 stores an observation after the next step, which would have changed it: make the environment "
                "with copy=True"
            )
        self.env, self._info_keys = env, tuple(info_keys)
        self._actions: Any = None
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)

    def reset(self) -> Any:
        """Begin episodes in all environments, with the seeds of ``seed`` and the options of ``set_options`` if there are new ones.

        Raises:
            ConfigError: options that differ between environments.
        """
        seed, options = self._seeds[0], self._options[0]
        if any(requested != options for requested in self._options):
            raise ConfigError(
                "set_options: the environments of a vector environment share the options of reset; give one mapping"
            )
        obs, infos = self.env.reset(seed=None if seed is None else int(seed), options=options or None)
        self.reset_infos = [self._passed_on(infos, number) for number in range(self.num_envs)]
        self._reset_seeds()
        self._reset_options()
        return obs

    def step_async(self, actions: Any) -> None:
        """Keep the actions for ``step_wait``."""
        self._actions = actions

    def step_wait(self) -> tuple[Any, Any, Any, list[dict[str, Any]]]:
        """Take one step; return observations, rewards (float32), ends, and one info per environment."""
        obs, rewards, terminations, truncations, infos = self.env.step(self._actions)
        dones = terminations | truncations
        listed = [self._passed_on(infos, number) for number in range(self.num_envs)]
        for number in np.flatnonzero(dones).tolist():
            self.reset_infos[number] = listed[number]
            listed[number] = self._passed_on(infos["final_info"], number)
            listed[number]["terminal_observation"] = infos["final_obs"][number]
            listed[number]["TimeLimit.truncated"] = bool(truncations[number] and not terminations[number])
        return obs, rewards.astype(np.float32), dones, listed

    def _passed_on(self, infos: Mapping[str, Any], number: int) -> dict[str, Any]:
        # only environments of others have a task_key
        return {key: infos[key][number] for key in self._info_keys if key in infos or key != "task_key"}

    def close(self) -> None:
        """Close the environments."""
        self.env.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return the vector environment's attribute, once per environment asked for."""
        return [getattr(self.env, attr_name)] * len(list(self._get_indices(indices)))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:  # noqa: ARG002 - its interface
        """Not possible: the environments have no separate attributes.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(f"{attr_name}: the environments of a vector environment have no separate attributes")

    def env_method(self, method_name: str, *method_args: Any, **method_kwargs: Any) -> list[Any]:  # noqa: ARG002 - its interface
        """Not possible: the environments are not separate objects.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(f"{method_name}: the environments of a vector environment are not separate objects")

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:  # noqa: ARG002 - its interface
        """Return False for each environment asked for."""
        return [False] * len(list(self._get_indices(indices)))


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
            f"the infos of the environments lack {' and '.join(missing)}: play a creditflow environment, wrap another one in "
            "ForeignEnv, and pass a vector environment on with VectorEnvAdapter(envs, info_keys=INFO_KEYS)"
        )
    return info
