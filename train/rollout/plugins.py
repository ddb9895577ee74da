"""Plug-ins of any kind: loaded by a spec, carried to the processes that work for a command, named when they fail."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import gymnasium as gym

from creditflow.envs.errors import ConfigError, CreditflowError, short_repr
from creditflow.envs.foreign.failures import failed_environment
from creditflow.envs.plugins.code import load_code
from creditflow.envs.plugins.registry import Kind, Registry, loaded
from creditflow.envs.reading.failures import summary
from creditflow.train.text_table import terminal_width, text_table
from creditflow.wrappers.credit.base import Scheme

__all__ = [
    "Carried",
    "PluginError",
    "carried",
    "failed_in",
    "load_carried",
    "load_plugin",
    "load_plugin_of",
    "naming_plugins",
    "plugins_text",
    "registries",
]

Carried = tuple[tuple[Kind, str, str], ...]  # kind, spec and digest of each


def registries() -> dict[Kind, Registry[Any]]:
    """The registry of every kind; their modules are imported only when one is looked up."""
    from creditflow.agents.registry import REGISTRY as AGENTS
    from creditflow.envs.registration import REGISTRY as ENVIRONMENTS
    from creditflow.train.rollout.own_metrics import METRICS
    from creditflow.wrappers.credit.registry import SCHEMES

    return {registry.kind: registry for registry in (SCHEMES, ENVIRONMENTS, AGENTS, METRICS)}


class PluginError(CreditflowError):
    """Code that a command runs for its user failed, or ended the program."""


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
    if isinstance(target, type) and callable(getattr(target, "measure", None)):
        return load_plugin_of("metric", spec, code.digest)
    raise ConfigError(
        f"{spec} is not a plug-in: expected a class of schemes (derived from Scheme), environments (AgentEnv or gymnasium.Env), "
        f"agents (with act and name) or metrics (with measure and name), got {short_repr(target)}"
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


def failed_in(error: BaseException) -> str:
    """Return where in a plug-in or foreign environment an error was raised, "" if in none."""
    files = {getattr(sys.modules.get(plugin.code.target.__module__), "__file__", None): plugin for plugin in loaded()}
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if (plugin := files.get(frame.filename)) is not None:
            return f"{plugin.kind} {plugin.name!r} ({frame.filename}, line {frame.lineno})"
    return failed_environment(error)


@contextmanager
def naming_plugins() -> Iterator[None]:
    """Convert whatever a plug-in or foreign environment raises into an error that names it.

    What it raises may have a meaning for the code that called it: ``SystemExit`` ends a program with success, ``StopIteration``
    ends a loop, ``BrokenPipeError`` means that nobody reads the output. Another process receives the error without its traceback.
    Our own errors, interrupts and whatever no plug-in raised pass unchanged.

    Raises:
        PluginError: a plug-in failed, or any code ended the program.
    """
    try:
        yield
    except (CreditflowError, KeyboardInterrupt):
        raise
    except SystemExit as error:
        culprit = failed_in(error) or "the code that this command runs"
        raise PluginError(
            f"{culprit} ended the program, by sys.exit({error.code!r}); raise an error instead"
        ) from error
    except BaseException as error:
        stopped = error.__cause__ if isinstance(error, RuntimeError) else None
        raised = stopped if isinstance(stopped, StopIteration) else error  # which a generator converts
        if culprit := failed_in(raised):
            raise PluginError(f"{culprit} failed: {summary(raised)}") from error
        raise


def plugins_text(rows: Sequence[Mapping[str, str]]) -> str:
    """Return the rows of plug-ins as text below another table; "" if there are none."""
    if not rows:
        return ""
    table = [["plug-in", "origin", "error"], *([row["name"], row["origin"], row["error"] or "–"] for row in rows)]
    return f"\n\n{text_table(table, width=terminal_width())}"
