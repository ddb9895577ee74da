"""The registry of schemes: ``make``, ``names``, ``explain``; ``register`` and ``load`` for plug-ins."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection
from dataclasses import MISSING, fields
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from creditflow.envs.errors import ConfigError, short_repr, unknown_name_error
from creditflow.envs.plugins.code import Code
from creditflow.envs.plugins.installed import installed_names, load_installed
from creditflow.envs.plugins.loaded import loaded_name, remember, require_no_code, same_code
from creditflow.wrappers.credit.annotations.actor_critic import MTPPO, PPOGAE
from creditflow.wrappers.credit.annotations.agent_opsd import AgentOPSD
from creditflow.wrappers.credit.annotations.draco import DRACO
from creditflow.wrappers.credit.annotations.hcapo import HCAPO
from creditflow.wrappers.credit.annotations.igpo import IGPO
from creditflow.wrappers.credit.annotations.pica import PiCA
from creditflow.wrappers.credit.annotations.prm import PRM
from creditflow.wrappers.credit.annotations.steppo import StepPO
from creditflow.wrappers.credit.annotations.tips import TIPS
from creditflow.wrappers.credit.annotations.trace import TRACE
from creditflow.wrappers.credit.base import Scheme, Semantics
from creditflow.wrappers.credit.entities.egrpo import EGRPO
from creditflow.wrappers.credit.entities.gdcr import GDCR
from creditflow.wrappers.credit.entities.sapo import SAPO
from creditflow.wrappers.credit.entities.stepsearch import StepSearch
from creditflow.wrappers.credit.outcomes.grpo import GRPO
from creditflow.wrappers.credit.outcomes.rloo import RLOO
from creditflow.wrappers.credit.states.ecpo import ECPO
from creditflow.wrappers.credit.states.gagpo import GAGPO
from creditflow.wrappers.credit.states.gigpo import GiGPO
from creditflow.wrappers.credit.states.graphgpo import GraphGPO
from creditflow.wrappers.credit.states.grouptd import GroupTD
from creditflow.wrappers.credit.states.hgpo import HGPO
from creditflow.wrappers.credit.states.rewardflow.scheme import RewardFlow
from creditflow.wrappers.credit.states.rtmc import RTMC

__all__ = ["explain", "known", "load", "lookup", "make", "names", "register"]

S = TypeVar("S", bound=type[Scheme])
_NAME = re.compile(
    r"[A-Za-z_][\w-]*"
)  # commands separate names by commas, and put what is done to a scheme in brackets
_SCHEMES: dict[str, type[Scheme]] = {
    scheme.name: scheme
    for scheme in (
        GRPO,
        RLOO,
        GiGPO,
        GraphGPO,
        RewardFlow,
        GroupTD,
        HGPO,
        GAGPO,
        RTMC,
        ECPO,
        GDCR,
        SAPO,
        EGRPO,
        StepSearch,
        PPOGAE,
        MTPPO,
        PRM,
        TIPS,
        IGPO,
        PiCA,
        StepPO,
        TRACE,
        HCAPO,
        DRACO,
        AgentOPSD,
    )
}


def register(scheme: S) -> S:
    """Register a scheme class under its ``name`` (also as a decorator); the benchmark, trainer and viewer then find it.

    Raises:
        ConfigError: the name belongs to another class, or the class breaks the rules of ``Scheme``.
    """
    _check_class(scheme)
    taken = _SCHEMES.setdefault(scheme.name, scheme)
    if taken is not scheme:
        raise ConfigError(
            f"{scheme.__module__}.{scheme.__qualname__}: a scheme named {scheme.name!r} exists already: "
            f"{taken.__module__}.{taken.__qualname__}"
        )
    return scheme


def load(spec: str, *, digest: str = "") -> str:
    """Load a scheme by where its code is, register it, and return its name. This runs the code.

    Args:
        spec: ``path/to/file.py:NAME`` or ``package.module:NAME``.
        digest: the expected digest of the code; "" for any.

    Raises:
        ConfigError: it cannot be imported, is no scheme, has a name that is taken, or another digest.
    """
    return _add(same_code(spec, digest))


def _add(code: Code, name: str = "") -> str:
    """Register what was loaded, under the given name if there is one; returns its name."""
    scheme = code.target
    if not (isinstance(scheme, type) and issubclass(scheme, Scheme)) or inspect.isabstract(scheme):
        missing = sorted(getattr(scheme, "__abstractmethods__", ()))
        raise ConfigError(
            f"{code.spec} is no credit scheme: expected a class derived from creditflow.wrappers.credit.Scheme with assign(group), "
            + (f"but it lacks {', '.join(missing)}" if missing else f"got {short_repr(scheme)}")
        )
    if name and (own := getattr(scheme, "name", "")) != name:
        raise ConfigError(f"{code.spec}: its entry point is called {name!r}, but the scheme is called {own!r}")
    try:
        register(scheme)
    except ConfigError as error:
        raise ConfigError(f"{code.spec}: {error}") from error
    remember("scheme", scheme.name, code)
    return scheme.name


def _check_class(scheme: type[Scheme]) -> None:
    """Raise ConfigError for the common mistakes in a custom scheme."""
    kind = scheme.__qualname__
    if not isinstance(getattr(scheme, "name", None), str) or not scheme.name:
        raise ConfigError(f"{kind}: a scheme needs a class attribute name, the string that make() takes")
    if not _NAME.fullmatch(scheme.name):
        raise ConfigError(
            f"{kind}: the name of a scheme is one word of letters, digits, _ and -, got {short_repr(scheme.name)}"
        )
    parameters = {f.name: f for f in fields(scheme)}
    for name, hint in inspect.get_annotations(scheme).items():
        if name not in parameters and "ClassVar" not in str(hint):
            raise ConfigError(f"{kind}.{name} is not a parameter yet: decorate the class with @dataclass(frozen=True)")
    for name, f in parameters.items():
        if f.default is MISSING:
            raise ConfigError(f"{kind}.{name} needs a default (a plain value): presets name only what differs from it")
    if "paper" not in scheme.presets:
        raise ConfigError(f"{kind}.presets must contain 'paper', the default semantics, got {sorted(scheme.presets)}")
    for preset in scheme.presets.values():
        for name in preset:
            if name not in parameters:
                raise unknown_name_error(f"parameter in {kind}.presets", name, parameters)


def names(*, given: Collection[str] | None = None) -> tuple[str, ...]:
    """Return the registered names, sorted.

    Args:
        given: restrict to schemes that need no annotations or task fields but these; () for those that need none.
    """
    return tuple(
        sorted(
            name
            for name, scheme in _SCHEMES.items()
            if given is None or {*scheme.requires, *scheme.task_fields} <= set(given)
        )
    )


def known(name: str) -> bool:
    """Whether a scheme has this name: built in, registered, or an entry point of an installed package, which is imported.

    Raises:
        ConfigError: the entry point is broken, or the name is that of code which was not loaded.
    """
    require_no_code("scheme", name)
    if name not in _SCHEMES and (code := load_installed("scheme", name)) is not None:
        _add(code, name)
    return name in _SCHEMES


def lookup(name: str) -> type[Scheme]:
    """Return the class registered under a name.

    Raises:
        ConfigError: the name is unknown (the message suggests the nearest one), or names code that was not loaded.
    """
    name = loaded_name("scheme", name) or name
    if not known(name):
        raise unknown_name_error("credit scheme", name, {*_SCHEMES, *installed_names("scheme")})
    return _SCHEMES[name]


def make(name: str, /, *, semantics: Semantics = "paper", **parameters: Any) -> Scheme:
    """Make a scheme by name.

    Args:
        name: one of ``names()``.
        semantics: "paper" (the published formula) or "release" (what the released code computes); each is a preset of
            parameter values, see ``explain(name)``.
        **parameters: values that override the preset.

    Raises:
        ConfigError: unknown name, semantics, parameter or value; the message suggests the nearest one.
    """
    scheme = lookup(name)
    preset = scheme.preset(semantics)
    for parameter in parameters:
        if parameter not in preset:
            raise unknown_name_error(f"parameter of {name}", parameter, preset)
    return scheme(**(preset | parameters))


def explain(name: str) -> str:
    """Describe a scheme: its formula, its source, and its parameters under each semantics."""
    scheme = lookup(name)
    hints = get_type_hints(scheme)
    presets = {semantics: scheme.preset(semantics) for semantics in scheme.presets}
    rows = [["parameter", *presets, "values"]]
    for f in fields(scheme):
        hint = hints[f.name]
        if get_origin(hint) is Literal:
            kind = " | ".join(map(str, get_args(hint)))
        else:
            kind = hint.__name__ if isinstance(hint, type) else str(hint)
        rows.append([f.name, *(str(preset[f.name]) for preset in presets.values()), kind])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    table = "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
    inherited = [base for base in scheme.__mro__[1:] if issubclass(base, Scheme) and base is not Scheme]
    parts = [
        f"{scheme.name}: {inspect.cleandoc(scheme.__doc__ or '')}",
        *(inspect.cleandoc(base.__doc__ or "") for base in inherited),
        f"Source: {scheme.source}",
        f"Declared properties: {', '.join(sorted(scheme.properties)) or 'none'}",
        f"Annotations needed: {', '.join(scheme.requires) or 'none'}",
        f"Fields of the task needed: {', '.join(scheme.task_fields) or 'none'}",
        table,
    ]
    return "\n\n".join(parts)
