"""Plug-ins of any kind: loaded by a spec, carried to the processes that work for a command, named when they fail."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import gymnasium as gym

from creditflow.agents.registry import AGENTS, PROMPTED, check_agent, load_agent
from creditflow.envs.errors import ConfigError, short_repr
from creditflow.envs.foreign.failures import failed_environment
from creditflow.envs.plugins.code import load_code
from creditflow.envs.plugins.installed import Kind, installed_names, origin_of
from creditflow.envs.plugins.loaded import loaded
from creditflow.envs.registration import ENVIRONMENTS, env_id, load_environment
from creditflow.train.rollout.own_metrics import load_metric, make_metric
from creditflow.train.text_table import text_table
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.credit.registry import load as load_scheme
from creditflow.wrappers.credit.registry import lookup, names

__all__ = [
    "Carried",
    "carried",
    "failed_in",
    "load_carried",
    "load_plugin",
    "load_plugin_of",
    "plugin_rows",
    "plugins_text",
]

Carried = tuple[tuple[Kind, str, str], ...]  # kind, spec and digest of each
LOADERS: Final[dict[Kind, Callable[..., str]]] = {
    "scheme": load_scheme, "environment": load_environment, "agent": load_agent, "metric": load_metric
}  # fmt: skip


def load_plugin_of(kind: Kind, spec: str, digest: str = "") -> str:
    """Load a plug-in of a kind; returns the name under which it is now known.

    Raises:
        ConfigError: it cannot be loaded, or is not of this kind.
    """
    return LOADERS[kind](spec, digest=digest)


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
    if isinstance(target, type) and callable(getattr(target, "measure", None)):
        return load_plugin_of("metric", spec, code.digest)
    raise ConfigError(
        f"{spec} is no plug-in: expected a class of schemes (derived from Scheme), environments (AgentEnv or gymnasium.Env), "
        f"agents (with act and name) or metrics (with measure and name), got {short_repr(target)}"
    )


def carried() -> Carried:
    """Return what another process must load to know the same plug-ins; installed packages it finds by itself."""
    return tuple((one.kind, one.code.spec, one.code.digest) for one in loaded())


def load_carried(plugins: Iterable[tuple[Kind, str, str]]) -> None:
    """Load the plug-ins of another process.

    Raises:
        ConfigError: one cannot be loaded here, or its code has changed meanwhile.
    """
    for kind, spec, digest in plugins:
        load_plugin_of(kind, spec, digest)


def failed_in(error: BaseException) -> str:
    """Return where in a plug-in or foreign environment an error was raised, "" if in none."""
    files = {getattr(sys.modules.get(one.code.target.__module__), "__file__", None): one for one in loaded()}
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if (one := files.get(frame.filename)) is not None:
            return f"{one.kind} {one.name!r} ({frame.filename}, line {frame.lineno})"
    return failed_environment(error)


def plugin_rows(kind: Kind) -> list[dict[str, str]]:
    """Return the plug-ins of a kind for a table: name, origin, and why one cannot be used ("" if it can).

    Those of installed packages are imported, each by itself; a broken one is a row with its error.
    """
    found = {one.name: one.code.spec for one in loaded() if one.kind == kind}
    known = {
        "scheme": set(names()),
        "environment": set(ENVIRONMENTS),
        "agent": {*AGENTS, *PROMPTED},
        "metric": set[str](),
    }
    own = known[kind] - set(found)
    rows = [{"name": name, "origin": origin, "error": ""} for name, origin in found.items()]
    for name in installed_names(kind):
        if name in found:
            rows[list(found).index(name)]["origin"] = origin_of(kind, name)
            continue
        error = f"creditflow has {kind} {name!r} itself, which is used" if name in own else _import_error(kind, name)
        rows.append({"name": name, "origin": origin_of(kind, name), "error": error})
    return sorted(rows, key=lambda row: row["name"])


def _import_error(kind: Kind, name: str) -> str:
    finders: dict[Kind, Callable[[str], Any]] = {
        "scheme": lookup,
        "environment": env_id,
        "agent": check_agent,
        "metric": make_metric,
    }
    try:
        finders[kind](name)
    except ConfigError as error:
        return str(error)
    return ""


def plugins_text(rows: Sequence[Mapping[str, str]]) -> str:
    """Return the rows of plug-ins as text below another table; "" if there are none."""
    if not rows:
        return ""
    table = [["plug-in", "origin", "error"], *([row["name"], row["origin"], row["error"] or "–"] for row in rows)]
    return f"\n\n{text_table(table)}"
