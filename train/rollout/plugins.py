"""Plug-ins of any kind: loaded by a spec, and carried to the processes that work for a command."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import gymnasium as gym

from creditflow.envs.errors import ConfigError, short_repr
from creditflow.envs.plugins import Kind, Registry, load_code, loaded
from creditflow.train.text_table import terminal_width, text_table
from creditflow.wrappers.credit.base import Scheme

__all__ = ["Carried", "carried", "load_carried", "load_plugin", "load_plugin_of", "plugins_text", "registries"]

Carried = tuple[tuple[Kind, str, str], ...]  # kind, spec and digest of each


def registries() -> dict[Kind, Registry[Any]]:
    """The registry of every kind; their modules are imported only when one is looked up."""
    from creditflow.agents.registry import REGISTRY as AGENTS
    from creditflow.envs.registration import REGISTRY as ENVIRONMENTS
    from creditflow.wrappers.credit.registry import SCHEMES

    return {registry.kind: registry for registry in (SCHEMES, ENVIRONMENTS, AGENTS)}


def load_plugin_of(kind: Kind, spec: str, digest: str = "") -> str:
    """Load a plug-in of a kind; returns the name under which it is now known.

    Raises:
        ConfigError: it cannot be loaded, or is not of this kind.
    """
    return registries()[kind].load(spec, digest=digest)


def load_plugin(spec: str) -> str:
    """Load a plug-in, of the kind that its class says; returns its name.

    Raises:
        ConfigError: it cannot be loaded, or is of no kind.
    """
    code = load_code(spec)
    target: Any = code.target
    if isinstance(target, type) and issubclass(target, Scheme):
        return load_plugin_of("scheme", spec, code.digest)
    if isinstance(target, type) and issubclass(target, gym.Env):
        return load_plugin_of("environment", spec, code.digest)
    if isinstance(target, type) and callable(getattr(target, "act", None)):
        return load_plugin_of("agent", spec, code.digest)
    raise ConfigError(
        f"{spec} is not a plug-in: expected a class of schemes (derived from Scheme), environments (AgentEnv or gymnasium.Env) "
        f"or agents (with act and name), got {short_repr(target)}"
    )


def carried() -> Carried:
    """Return what another process must load to know the same plug-ins; installed packages it finds by itself."""
    return tuple((plugin.kind, plugin.code.spec, plugin.code.digest) for plugin in loaded())


def load_carried(plugins: Iterable[tuple[Kind, str, str]]) -> None:
    """Load the plug-ins of another process.

    Raises:
        ConfigError: one cannot be loaded here, or its code has changed meanwhile.
    """
    for kind, spec, digest in plugins:
        load_plugin_of(kind, spec, digest)


def plugins_text(rows: Sequence[Mapping[str, str]]) -> str:
    """Return the rows of plug-ins as text below another table; "" if there are none."""
    if not rows:
        return ""
    table = [["plug-in", "origin", "error"], *([row["name"], row["origin"], row["error"] or "–"] for row in rows)]
    return f"\n\n{text_table(table, width=terminal_width())}"
