"""What was loaded in this process, by kind and name: for the identity of a run, and for the processes that work for it."""

from __future__ import annotations

from dataclasses import dataclass

from creditflow.envs.errors import ConfigError
from creditflow.envs.plugins.code import Code, load_code, names_code
from creditflow.envs.plugins.installed import Kind

__all__ = ["Loaded", "loaded", "loaded_name", "remember", "require_no_code", "same_code"]


@dataclass(frozen=True, slots=True)
class Loaded:
    """A plug-in.

    Attributes:
        kind, name: what it is registered as.
        code: the object and where it is from.
    """

    kind: Kind
    name: str
    code: Code


_LOADED: dict[tuple[Kind, str], Loaded] = {}


def remember(kind: Kind, name: str, code: Code) -> None:
    """Record a plug-in that was registered."""
    _LOADED[kind, name] = Loaded(kind, name, code)


def loaded() -> tuple[Loaded, ...]:
    """Return what was loaded, sorted by kind and name."""
    return tuple(_LOADED[key] for key in sorted(_LOADED))


def loaded_name(kind: Kind, spec: str) -> str | None:
    """Return the name under which a spec was loaded; None if it was not."""
    place = spec if ":" not in spec else ":".join(spec.split(":")[:2])
    return next((one.name for one in loaded() if one.kind == kind and one.code.spec in (spec, place)), None)


def require_no_code(kind: Kind, name: str) -> None:
    """Check that a name does not name code that was not loaded.

    Raises:
        ConfigError: it does; the message says how to load it.
    """
    if names_code(name):
        raise ConfigError(
            f"{kind} {name!r} names code, which runs only if you name it yourself: on the command line, with --load {name} (a "
            "settings file, log or run folder may come from others); in Python, with the load function of its registry"
        )


def same_code(spec: str, digest: str) -> Code:
    """Import an object whose content is known.

    Raises:
        ConfigError: its content is another.
    """
    code = load_code(spec)
    if digest and code.digest != digest:
        raise ConfigError(f"{spec} has changed since the command began: {code.digest}, expected {digest}")
    return code
