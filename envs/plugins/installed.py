"""Entry points of installed packages: ``creditflow.schemes``, ``creditflow.environments``, ``creditflow.agents``.

Their names are read without importing anything; an entry point is imported when its name is asked for, so a broken one
breaks nothing else.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, Literal

from creditflow.envs.errors import ConfigError
from creditflow.envs.plugins.code import Code, imported, module_digest

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["GROUPS", "Kind", "installed_names", "load_installed", "origin_of"]

Kind = Literal["scheme", "environment", "agent", "metric"]
GROUPS: Final[dict[Kind, str]] = {
    "scheme": "creditflow.schemes",
    "environment": "creditflow.environments",
    "agent": "creditflow.agents",
    "metric": "creditflow.metrics",
}


def installed_names(kind: Kind) -> tuple[str, ...]:
    """Return the names that installed packages give to plug-ins of a kind, sorted; nothing is imported."""
    return tuple(sorted({point.name for point in _points(kind)}))


def load_installed(kind: Kind, name: str) -> Code | None:
    """Import the entry point of a name; None if no installed package has it.

    Raises:
        ConfigError: several packages have it, or its import fails; the message names the packages.
    """
    found = _found(kind, name)
    if not found:
        return None
    if len(found) > 1:
        raise ConfigError(
            f"{kind} {name!r} is in several installed packages: {'; '.join(map(_origin, found))}; uninstall all but one, or name "
            "the code: MODULE:NAME"
        )
    [one] = found
    target = imported(one.load, f"{kind} {name!r} of {_origin(one)}")
    return Code(f"{one.value}", target, module_digest(sys.modules[one.module]))


def origin_of(kind: Kind, name: str) -> str:
    """Return the packages that an installed name comes from, for tables."""
    return "; ".join(map(_origin, _found(kind, name)))


def _found(kind: Kind, name: str) -> list[EntryPoint]:
    """The distinct entry points of a name; a package that is found twice on the path counts once."""
    distinct = {_origin(point): point for point in _points(kind) if point.name == name}
    return [distinct[origin] for origin in sorted(distinct)]


def _points(kind: Kind) -> tuple[EntryPoint, ...]:
    from importlib.metadata import entry_points  # imports email and zipfile: only when plug-ins are looked for

    return tuple(entry_points(group=GROUPS[kind]))


def _origin(point: EntryPoint) -> str:
    package = f"{point.dist.name} {point.dist.version}" if point.dist is not None else "an unnamed package"
    return f"{package} ({point.value})"
