"""Registration with Gymnasium, and ``creditflow.make("sokoban")`` and ``make_vec`` for short names.

Gymnasium ≥ 1.0 has no entry-point plugins: ids exist once ``creditflow`` is imported, or through Gymnasium's own
``gym.make("creditflow:creditflow/Sokoban-v0")``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import partial
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import gymnasium as gym
from gymnasium.envs.registration import load_env_creator
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv

from creditflow.envs.errors import ConfigError, short_repr, unknown_name_error
from creditflow.envs.foreign.failures import note_failure
from creditflow.envs.plugins import Code, Registry

if TYPE_CHECKING:
    from creditflow.envs.core import AgentEnv

__all__ = [
    "ENVIRONMENTS",
    "REGISTRY",
    "Entry",
    "bare_env",
    "default_arguments",
    "env_id",
    "limit_option",
    "load_environment",
    "make",
    "make_vec",
    "maker",
    "register_envs",
]


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

_OF_GYMNASIUM = frozenset({"max_episode_steps", "disable_env_checker"})  # parameters of its ``make``


def _name_of(code: Code) -> str:
    """Check that loaded code is an environment, and return its name."""
    from creditflow.envs.core import AgentEnv

    kind: Any = code.target
    if not (isinstance(kind, type) and issubclass(kind, gym.Env)):
        raise ConfigError(
            f"{code.spec} is not an environment: expected a class derived from AgentEnv or gymnasium.Env, got {short_repr(kind)}"
        )
    return kind.env_name if issubclass(kind, AgentEnv) else kind.__name__


def _register_plugin(code: Code, name: str) -> str:
    """Register loaded code with Gymnasium; returns its id."""
    from creditflow.envs.core import AgentEnv

    strict = not issubclass(code.target, AgentEnv)  # see _register
    gym_id = f"plugins/{name}-v0"
    gym.register(id=gym_id, entry_point=code.target, order_enforce=strict, disable_env_checker=not strict)
    return gym_id


# Gymnasium ids by short name; those of a tool (the benchmark's grid worlds) are added when it is imported
REGISTRY: Final[Registry[str]] = Registry(
    "environment",
    {name: entry.gym_id for name, entry in ENVIRONMENTS.items()},
    name_of=_name_of,
    entry_of=_register_plugin,
)


def register_envs() -> None:
    """Register every environment once, without Gymnasium's order-enforcing and passive-checking wrappers.

    Both assume that only ``reset`` starts an episode, and reject the first step after a restored snapshot. ``AgentEnv``
    itself rejects a step without an episode, and ``check_agent_env`` checks more than the passive checker.
    """
    for entry in ENVIRONMENTS.values():
        if entry.gym_id not in gym.registry:  # a second import would print "Overriding environment"
            gym.register(id=entry.gym_id, entry_point=entry.entry_point, order_enforce=False, disable_env_checker=True)


def load_environment(spec: str, *, digest: str = "") -> str:
    """Load an environment by where its code is, register it, and return its name. This runs the code.

    Args:
        spec: ``path/to/file.py:NAME`` or ``package.module:NAME``; NAME is a class, an ``AgentEnv`` (its name is then its
            ``env_name``) or any other environment of Gymnasium, which needs ``success`` (see ``ForeignEnv``).
        digest: the expected digest of the code; "" for any.

    Raises:
        ConfigError: it cannot be imported, is no environment, has a name that is taken, or another digest.
    """
    return REGISTRY.load(spec, digest=digest)


def env_id(name: str) -> str:
    """Return the Gymnasium id of a short name ("sokoban"), or the id itself.

    Raises:
        ConfigError: unknown name (suggests the nearest one), or code that was not loaded.
    """
    return name if name in gym.registry else REGISTRY.get(name)


def limit_option(name: str) -> str:
    """Name of the argument of ``make`` that limits the turns of an episode, invalid ones included."""
    return "max_steps" if _is_own(env_id(name)) else "max_episode_steps"


def maker(name: str, options: Mapping[str, Any]) -> Callable[[], gym.Env[Any, Any]]:
    """Return a function that makes an environment, for callers that accept its options next to their own parameters.

    Options of an environment may have any name; passed on as keywords they would collide with the parameters of the receiver.
    """
    return partial(make, name, **options)


def make(name: str, /, **kwargs: Any) -> gym.Env[Any, Any]:
    """Make an environment by short name or Gymnasium id: ``creditflow.make("sokoban", max_steps=20)``.

    A foreign environment is returned as it is; with ``success`` (and ``state_key``) among the arguments as a ``ForeignEnv``:
    ``creditflow.make("FrozenLake-v1", success="positive_reward", is_slippery=False)``.

    Raises:
        ConfigError: an unknown environment, or an argument that one of creditflow's environments does not take.
    """
    gym_id = env_id(name)
    if _is_own(gym_id):
        _check_arguments(name, gym_id, kwargs)
        return _made(gym_id, kwargs)
    rules = {key: kwargs.pop(key) for key in ("state_key", "success") if key in kwargs}
    try:
        env = _made(gym_id, kwargs)
    except Exception as error:
        note_failure(error, name, "its constructor")
        raise
    if not rules:
        return env
    from creditflow.envs.foreign.env import ForeignEnv

    return ForeignEnv(env, **rules)


def bare_env(name: str, settings: Mapping[str, Any]) -> AgentEnv[Any, Any, Any]:
    """The unwrapped environment.

    Raises:
        ConfigError: unknown environment, or an argument it does not take.
    """
    from creditflow.envs.core import AgentEnv  # imported late: registering imports no environment

    try:
        env = make(name, **settings).unwrapped
    except TypeError as error:
        raise ConfigError(f"environment {name!r} does not take these arguments: {error}") from error
    if not isinstance(env, AgentEnv):
        raise ConfigError(
            f"{name!r} is not a creditflow environment: define success with --env-set success=terminated, positive_reward "
            "or reported, and the state with --env-set state_key=rounded:2 if it is not the observation"
        )
    return env


def _made(gym_id: str, arguments: Mapping[str, Any]) -> gym.Env[Any, Any]:
    """Call ``gym.make`` so that an argument of the environment may be called ``id``."""
    ours = {name: value for name, value in arguments.items() if name in _OF_GYMNASIUM}
    spec = copy.deepcopy(gym.spec(gym_id))
    spec.kwargs |= {name: value for name, value in arguments.items() if name not in ours}
    return gym.make(spec, **ours)


def default_arguments(name: str) -> dict[str, Any]:
    """The arguments of an environment that have a default, with it."""
    return {
        key: value.default for key, value in _parameters(env_id(name)).items() if value.default is not Parameter.empty
    }


def _parameters(gym_id: str) -> Mapping[str, Parameter]:
    entry_point: Any = gym.spec(gym_id).entry_point
    return signature(load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point).parameters


def _check_arguments(name: str, gym_id: str, given: Mapping[str, Any]) -> None:
    """Reject arguments that neither the environment nor Gymnasium's ``make`` takes."""
    parameters = _parameters(gym_id)
    if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    if "panel" in given and "panel" not in parameters:
        raise ConfigError(
            f"environment {name!r} has no panels, got {short_repr(given['panel'])}: leave out --panel, tasks.panel, tasks.exclude, "
            "evaluation.panel and evaluation.final_panel, or give its constructor a parameter panel that chooses its tasks"
        )
    if unknown := sorted(set(given) - set(parameters) - _OF_GYMNASIUM):
        raise unknown_name_error(f"argument of the environment {name!r}:", unknown[0], parameters)


def _is_own(gym_id: str) -> bool:
    """Whether an environment is creditflow's or derived from ``AgentEnv``, so that it takes all arguments itself."""
    from creditflow.envs.core import AgentEnv

    if gym_id.startswith("creditflow/"):
        return True
    entry_point: Any = gym.spec(gym_id).entry_point
    return isinstance(entry_point, type) and issubclass(entry_point, AgentEnv)


def make_vec(
    name: str, /, num_envs: int, *, vectorization_mode: str = "sync", **kwargs: Any
) -> VectorEnv[Any, Any, Any]:
    """Make a vector of equal environments.

    ``AsyncVectorEnv`` runs with ``shared_memory=False``, as text has no fixed size.

    Args:
        name: short name or Gymnasium id.
        num_envs: number of environments.
        vectorization_mode: "sync", or "async" (one process each).
        **kwargs: arguments of the environment, as ``make`` takes them.
    """
    if vectorization_mode not in ("sync", "async"):
        raise ConfigError(f"vectorization_mode must be 'sync' or 'async', got {short_repr(vectorization_mode)}")
    env_id(name)  # an unknown name is an error here, not in another process

    def build() -> gym.Env[Any, Any]:
        return make(name, **kwargs)

    if vectorization_mode == "sync":
        return SyncVectorEnv([build] * num_envs)
    return AsyncVectorEnv([build] * num_envs, shared_memory=False)
