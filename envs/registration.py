"""Registration with Gymnasium, and ``creditflow.make("sokoban")`` and ``make_vec`` for short names.

Gymnasium ≥ 1.0 has no entry-point plugins: ids exist once ``creditflow`` is imported, or through Gymnasium's own
``gym.make("creditflow:creditflow/Sokoban-v0")``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium as gym
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from creditflow.envs.errors import ConfigError, short_repr, unknown_name_error

__all__ = ["ENVIRONMENTS", "Entry", "env_id", "make", "make_vec", "register_envs", "register_unlisted"]


class Entry(NamedTuple):
    """A registered environment.

    Attributes:
        gym_id: Gymnasium id.
        entry_point: a string, so that importing creditflow imports no environment.
        files: name of the argument for the path of a user's own tasks; "" if there is none.
    """

    gym_id: str
    entry_point: str
    files: str


ENVIRONMENTS: dict[str, Entry] = {
    "sokoban": Entry("creditflow/Sokoban-v0", "creditflow.envs.sokoban.env:SokobanEnv", "levels"),
    "alfworld": Entry("creditflow/ALFWorld-v0", "creditflow.envs.alfworld.env:ALFWorldEnv", "data_path"),
    "webshop": Entry("creditflow/WebShop-v0", "creditflow.envs.webshop.env:WebShopEnv", "data"),
    "wikisearch": Entry("creditflow/WikiSearch-v0", "creditflow.envs.wikisearch.env:WikiSearchEnv", "questions"),
}

# environments of a tool (the benchmark's grid worlds): registered when it is imported, never listed
UNLISTED: dict[str, Entry] = {}


def register_unlisted(name: str, entry: Entry, *, nondeterministic: bool = False) -> None:
    """Register an environment of a tool with ``make`` and Gymnasium, once."""
    UNLISTED.setdefault(name, entry)
    _register(entry, nondeterministic=nondeterministic)


def register_envs() -> None:
    """Register every environment once, so that a second import does not print "Overriding environment"."""
    for entry in ENVIRONMENTS.values():
        _register(entry, nondeterministic=False)


def _register(entry: Entry, *, nondeterministic: bool) -> None:
    """Register one id, without Gymnasium's order-enforcing and passive-checking wrappers.

    Both assume that only ``reset`` starts an episode, and reject the first step after a restored snapshot. ``AgentEnv``
    itself rejects a step without an episode, and ``check_agent_env`` checks more than the passive checker.
    """
    if entry.gym_id not in gym.registry:
        gym.register(
            id=entry.gym_id, entry_point=entry.entry_point, nondeterministic=nondeterministic,
            order_enforce=False, disable_env_checker=True,
        )  # fmt: skip


def env_id(name: str) -> str:
    """Return the Gymnasium id of a short name ("sokoban"), or the id itself.

    Raises:
        ConfigError: unknown name; suggests the nearest one.
    """
    entry = ENVIRONMENTS.get(name) or UNLISTED.get(name)
    if entry is not None:
        return entry.gym_id
    if name in gym.registry:
        return name
    raise unknown_name_error("environment", name, [*ENVIRONMENTS, *(entry.gym_id for entry in ENVIRONMENTS.values())])


def make(name: str, **kwargs: Any) -> gym.Env[Any, Any]:
    """Make an environment by short name or Gymnasium id: ``creditflow.make("sokoban", max_steps=20)``.

    An environment of others is returned as it is; with ``success`` (and ``state_key``) among the arguments as a ``ForeignEnv``:
    ``creditflow.make("FrozenLake-v1", success="positive_reward", is_slippery=False)``.
    """
    gym_id = env_id(name)
    rules = {key: kwargs.pop(key) for key in ("state_key", "success") if key in kwargs and not _is_own(gym_id)}
    env = gym.make(gym_id, **kwargs)
    if not rules:
        return env
    from creditflow.envs.foreign.env import ForeignEnv

    return ForeignEnv(env, **rules)


def _is_own(gym_id: str) -> bool:
    return any(gym_id == entry.gym_id for entry in (*ENVIRONMENTS.values(), *UNLISTED.values()))


def make_vec(
    name: str, num_envs: int, *, vectorization_mode: str = "sync", **kwargs: Any
) -> SyncVectorEnv | AsyncVectorEnv:
    """Make a vector of equal environments.

    ``AsyncVectorEnv`` runs with ``shared_memory=False``, as text has no fixed size.

    Args:
        name: short name or Gymnasium id.
        num_envs: number of environments.
        vectorization_mode: "sync" or "async" (one process each).
        **kwargs: arguments of the environment.
    """
    if vectorization_mode not in ("sync", "async"):
        raise ConfigError(f"vectorization_mode must be 'sync' or 'async', got {short_repr(vectorization_mode)}")
    gym_id = env_id(name)

    def build() -> gym.Env[Any, Any]:
        return gym.make(f"creditflow:{gym_id}" if gym_id.startswith("creditflow/") else gym_id, **kwargs)

    if vectorization_mode == "sync":
        return SyncVectorEnv([build] * num_envs)
    return AsyncVectorEnv([build] * num_envs, shared_memory=False)
