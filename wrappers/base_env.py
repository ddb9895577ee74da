"""The creditflow environment inside a stack of Gymnasium wrappers, or made of a foreign one."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError
from creditflow.envs.foreign.env import ForeignEnv
from creditflow.envs.foreign.keys import StateKey
from creditflow.envs.foreign.rules import Success

__all__ = ["base_env", "recordable"]


def base_env(env: gym.Env[Any, Any], wrapper: str) -> AgentEnv[Any, Any, Any]:
    """Return the unwrapped ``AgentEnv``.

    Args:
        env: an environment, possibly wrapped.
        wrapper: name of the wrapper that needs it, for the error message.

    Raises:
        ConfigError: the unwrapped environment is not an ``AgentEnv``.
    """
    base = env.unwrapped
    if not isinstance(base, AgentEnv):
        raise ConfigError(
            f"{wrapper} wraps creditflow environments, got {type(base).__name__}; make it one: ForeignEnv(env, success=…)"
        )
    return base


def recordable(
    env: gym.Env[Any, Any],
    wrapper: str,
    state_key: str | StateKey | None,
    success: str | Success | None,
    task: str | StateKey | None = None,
) -> gym.Env[Any, Any]:
    """Return an environment whose episodes can be recorded: itself, or a ``ForeignEnv`` around a foreign one.

    Args:
        env: any Gymnasium environment, possibly wrapped.
        wrapper: name of the wrapper that needs it, for the error message.
        state_key, success, task: see ``ForeignEnv``; None for an ``AgentEnv``, which knows all.

    Raises:
        ConfigError: no rule of success for a foreign environment, or rules for an ``AgentEnv``.
    """
    if not isinstance(env, gym.Env) or not isinstance(env.unwrapped, AgentEnv):
        return ForeignEnv(env, success=success, state_key=state_key, task=task)
    if state_key is not None or success is not None or task is not None:
        of_others = isinstance(env.unwrapped, ForeignEnv)
        raise ConfigError(
            f"{wrapper}: "
            + (
                "pass state_key, success and task to the innermost wrapper, or to ForeignEnv, instead"
                if of_others
                else f"state_key, success and task are for foreign environments; {type(env.unwrapped).__name__} defines both states and success"
            )
        )
    return env
