"""Registration with Gymnasium, and the short spellings ``creditflow.make("sokoban")`` and ``make_vec``.

Gymnasium ≥ 1.0 has no entry-point plugins: ids exist once ``creditflow`` is imported, or through Gymnasium's own
``gym.make("creditflow:creditflow/Sokoban-v0")``.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from creditflow.envs.errors import ConfigError, unknown_name

__all__ = ["ENVIRONMENTS", "env_id", "make", "make_vec", "register_envs"]

# short name -> (Gymnasium id, entry point); the entry point is a string, so importing creditflow imports no env
ENVIRONMENTS: dict[str, tuple[str, str]] = {
    "sokoban": ("creditflow/Sokoban-v0", "creditflow.envs.sokoban.env:SokobanEnv"),
    "wikisearch": ("creditflow/WikiSearch-v0", "creditflow.envs.wikisearch.env:WikiSearchEnv"),
}


def register_envs() -> None:
    """Register every environment once; a second import path must not print "Overriding environment"."""
    for gym_id, entry_point in ENVIRONMENTS.values():
        if gym_id not in gym.registry:
            gym.register(id=gym_id, entry_point=entry_point, nondeterministic=False)


def env_id(name: str) -> str:
    """The Gymnasium id of a short name ("sokoban") or of an id itself.

    Raises:
        ConfigError: unknown name; suggests the near one.
    """
    if name in ENVIRONMENTS:
        return ENVIRONMENTS[name][0]
    if name in gym.registry:
        return name
    raise unknown_name("environment", name, [*ENVIRONMENTS, *(gym_id for gym_id, _ in ENVIRONMENTS.values())])


def make(name: str, **kwargs: Any) -> gym.Env[Any, Any]:
    """``gymnasium.make`` that also takes short names: ``creditflow.make("sokoban", max_steps=20)``."""
    return gym.make(env_id(name), **kwargs)


def make_vec(
    name: str, num_envs: int, *, vectorization_mode: str = "sync", **kwargs: Any
) -> SyncVectorEnv | AsyncVectorEnv:
    """A vector of equal environments.

    ``AsyncVectorEnv`` runs with ``shared_memory=False``: text has no fixed size, so it cannot live in shared memory.

    Args:
        name: short name or Gymnasium id.
        num_envs: how many.
        vectorization_mode: "sync" or "async" (one process each).
        **kwargs: for the environment.
    """
    if vectorization_mode not in ("sync", "async"):
        raise ConfigError(f"vectorization_mode must be 'sync' or 'async', got {vectorization_mode!r}")
    gym_id = env_id(name)

    def build() -> gym.Env[Any, Any]:
        return gym.make(f"creditflow:{gym_id}" if gym_id.startswith("creditflow/") else gym_id, **kwargs)

    if vectorization_mode == "sync":
        return SyncVectorEnv([build] * num_envs)
    return AsyncVectorEnv([build] * num_envs, shared_memory=False)
