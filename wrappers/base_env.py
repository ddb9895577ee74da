"""The creditflow environment inside a stack of Gymnasium wrappers."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError

__all__ = ["base_env"]


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
        raise ConfigError(f"{wrapper} wraps creditflow environments, got {type(base).__name__}")
    return base
