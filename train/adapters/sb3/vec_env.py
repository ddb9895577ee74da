"""A Gymnasium vector environment as Stable-Baselines3's ``VecEnv``: batches go through, environment by environment nothing is done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from stable_baselines3.common.vec_env import VecEnv

from creditflow.envs.errors import ConfigError

__all__ = ["VectorEnvAdapter"]


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
        if any(other != options for other in self._options):
            raise ConfigError(
                "set_options: the environments of a vector environment share the options of reset; give one mapping"
            )
        obs, infos = self.env.reset(seed=None if seed is None else int(seed), options=options or None)
        self.reset_infos = [{key: infos[key][i] for key in self._info_keys} for i in range(self.num_envs)]
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
        listed: list[dict[str, Any]] = [
            {key: infos[key][number] for key in self._info_keys} for number in range(self.num_envs)
        ]
        for number in np.flatnonzero(dones).tolist():
            self.reset_infos[number] = listed[number]
            listed[number] = {key: infos["final_info"][key][number] for key in self._info_keys}
            listed[number]["terminal_observation"] = infos["final_obs"][number]
            listed[number]["TimeLimit.truncated"] = bool(truncations[number] and not terminations[number])
        return obs, rewards.astype(np.float32), dones, listed

    def close(self) -> None:
        """Close the environments."""
        self.env.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return the vector environment's attribute, once per environment asked for."""
        return [getattr(self.env, attr_name)] * len(list(self._get_indices(indices)))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:  # noqa: ARG002 - its interface
        """Not possible: the environments have no attributes of their own.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(f"{attr_name}: the environments of a vector environment have no attributes of their own")

    def env_method(self, method_name: str, *method_args: Any, **method_kwargs: Any) -> list[Any]:  # noqa: ARG002 - its interface
        """Not possible: the environments are no objects of their own.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(f"{method_name}: the environments of a vector environment are no objects of their own")

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:  # noqa: ARG002 - its interface
        """Return False for each environment asked for."""
        return [False] * len(list(self._get_indices(indices)))
