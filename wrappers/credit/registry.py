"""The registry of schemes: ``make``, ``names`` and ``describe``, with ``register`` and ``load`` for plug-ins; and the credit of a batch.

A scheme of the package registers itself by the decorator in its module. A scheme that is looked up is imported by the module
with its name; all modules below this package's folders are imported, in alphabetical order, when names are listed, or when no
module has the name.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Collection, Sequence
from dataclasses import MISSING, fields
from importlib import import_module
from typing import Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

from creditflow.envs.errors import ConfigError, short_repr, unknown_name_error
from creditflow.envs.plugins import Code, Registry
from creditflow.wrappers.credit.base import Credit, Scheme, Semantics, is_sum
from creditflow.wrappers.credit.branches import share_prefixes
from creditflow.wrappers.credit.combined import SHARED_OPTIONS, Sum, parsed_sum, weighted
from creditflow.wrappers.credit.states.keys import MergingScheme
from creditflow.wrappers.records.group import Group

__all__ = ["SCHEMES", "assigned", "describe", "known", "load", "lookup", "make", "names", "option_names", "register"]

PACKAGE: Final = "creditflow.wrappers.credit"
S = TypeVar("S", bound=type[Scheme])


def register(scheme: S) -> S:
    """Register a scheme class under its ``name`` (also as a decorator). The benchmark, trainer and viewer then find it.

    Raises:
        ConfigError: the name belongs to another class, or the class breaks the rules of ``Scheme``.
    """
    _check_class(scheme)
    if not scheme.__module__.startswith(f"{PACKAGE}."):
        SCHEMES.shipped()  # so that a name of the package's own is taken
    SCHEMES.add(scheme.name, scheme)
    return scheme


def load(spec: str, *, digest: str = "") -> str:
    """Load a scheme by where its code is, register it, and return its name. This runs the code.

    Args:
        spec: ``path/to/file.py:NAME`` or ``package.module:NAME``.
        digest: the expected digest of the code, or "" for any.

    Raises:
        ConfigError: it cannot be imported, is not a scheme, has a name that is taken, or has another digest.
    """
    return SCHEMES.load(spec, digest=digest)


def _name_of(code: Code) -> str:
    """Check that loaded code is a scheme, and return its name."""
    scheme = code.target
    if not (isinstance(scheme, type) and issubclass(scheme, Scheme)) or inspect.isabstract(scheme):
        missing = sorted(getattr(scheme, "__abstractmethods__", ()))
        raise ConfigError(
            f"{code.spec} is not a credit scheme: expected a class derived from creditflow.wrappers.credit.Scheme with assign(group), "
            + (f"but it lacks {', '.join(missing)}" if missing else f"got {short_repr(scheme)}")
        )
    try:
        _check_class(scheme)
    except ConfigError as error:
        raise ConfigError(f"{code.spec}: {error}") from error
    return scheme.name


def _import_shipped(name: str = "") -> None:
    """Import every module below the folders of this package, or those with a name; that registers the schemes in them."""
    package = import_module(PACKAGE)
    for module in pkgutil.walk_packages(package.__path__, f"{PACKAGE}."):  # sorted within each folder
        folder, _, last = module.name.rpartition(".")
        if folder != PACKAGE and name in ("", last):  # the modules beside the folders have no schemes
            import_module(module.name)


SCHEMES: Final = Registry[type[Scheme]]("scheme", noun="credit scheme", discover=_import_shipped, name_of=_name_of)


def _check_class(scheme: type[Scheme]) -> None:
    """Raise ConfigError for the common mistakes in a custom scheme."""
    kind = scheme.__qualname__
    if not isinstance(getattr(scheme, "name", None), str) or not scheme.name:
        raise ConfigError(f"{kind}: a scheme needs a class attribute name, the string that make() takes")
    if is_sum(scheme.name):
        raise ConfigError(
            f"{kind}.name is {scheme.name!r}, but + and * are those of sums of schemes: use other characters"
        )
    parameters = {f.name: f for f in fields(scheme)}
    for name, hint in inspect.get_annotations(scheme).items():
        if name not in parameters and "ClassVar" not in str(hint):
            raise ConfigError(f"{kind}.{name} is not a parameter yet: decorate the class with @dataclass(frozen=True)")
    for name, f in parameters.items():
        if f.default is MISSING:
            raise ConfigError(f"{kind}.{name} needs a default (a plain value): presets list only differences")
    if "paper" not in scheme.presets:
        raise ConfigError(f"{kind}.presets must contain 'paper', the default semantics, got {sorted(scheme.presets)}")
    for name in scheme.all_ranges():
        if name not in parameters:
            raise unknown_name_error(f"parameter in {kind}.ranges", name, parameters)
    for preset in scheme.presets.values():
        for name in preset:
            if name not in parameters:
                raise unknown_name_error(f"parameter in {kind}.presets", name, parameters)


def names(*, given: Collection[str] | None = None) -> tuple[str, ...]:
    """Return the registered names, sorted.

    Args:
        given: restrict to schemes that need no annotations or task fields except these. () means those that need none.
    """
    return tuple(
        name
        for name, scheme in SCHEMES.entries().items()
        if given is None or {*scheme.requires, *scheme.task_fields} <= set(given)
    )


def known(name: str) -> bool:
    """Whether a scheme has this name: built in, registered, or an entry point of an installed package, which is imported.

    Raises:
        ConfigError: the entry point is broken, or the name is that of code which was not loaded.
    """
    return name in SCHEMES


def lookup(name: str) -> type[Scheme]:
    """Return the class registered under a name.

    Raises:
        ConfigError: the name is unknown (the message suggests the nearest one), or names code that was not loaded.
    """
    return SCHEMES.get(name)


def option_names(name: str) -> set[str]:
    """Names of the parameters of a scheme, or of all schemes of a sum.

    Raises:
        ConfigError: one is unknown, or names code that was not loaded.
    """
    terms = [term for _, term in parsed_sum(name)] if is_sum(name) else [name]
    return {option.name for term in terms for option in fields(lookup(term))}


def make(name: str, /, *, semantics: Semantics = "paper", **parameters: Any) -> Scheme:
    """Make a scheme by name.

    Args:
        name: one of ``names()``, or a sum of them with weights, such as "0.5*grpo + 0.5*gigpo" (see ``combined.py``), where a
            parameter goes to every scheme that has it.
        semantics: "paper" (the published formula) or "release" (what the released code computes). Each is a preset of
            parameter values, see ``describe(name)``.
        **parameters: values that override the preset. A ``MergingScheme`` also takes ``merge="hf:MODEL"``, a text encoder
            that merges similar states (see ``merged.py``). Every scheme also takes ``centre="group"``, which centres its
            credit in each group, and ``divide_by_success=True`` (see ``combined.py``). grouptd has its own
            ``divide_by_success``.

    Raises:
        ConfigError: unknown name, semantics, parameter or value. The message suggests the nearest one.
    """
    if is_sum(name):
        return _make_sum(name, semantics, parameters)
    scheme = lookup(name)
    preset = scheme.preset(semantics)
    encoder = str(parameters.pop("merge", "none")) if issubclass(scheme, MergingScheme) else "none"
    shared = {option: parameters.pop(option) for option in SHARED_OPTIONS if option in {*parameters} - {*preset}}
    for parameter in parameters:
        if parameter not in preset:
            raise unknown_name_error(f"parameter of {name}", parameter, (*preset, *SHARED_OPTIONS))
    made = scheme(**(preset | parameters))
    if shared:
        made = weighted(made, **shared)
    if encoder != "none":
        from creditflow.wrappers.credit.merged import MergedByModel

        return MergedByModel(made, encoder)
    return made


def assigned(scheme: Scheme, groups: Sequence[Group], combine: Literal["mean", "sum"] = "mean") -> list[Credit]:
    """The credit of a batch, with one number for each turn that several trajectories share.

    Groups without branches get what ``assign_batch`` gives them.

    Args:
        scheme: a scheme.
        groups: the groups of a batch.
        combine: see ``share_prefixes``.
    """
    credits_ = scheme.assign_batch(list(groups))
    return [
        share_prefixes(group, credit, combine) if group.first_turns.any() else credit
        for group, credit in zip(groups, credits_, strict=True)
    ]


def _make_sum(text: str, semantics: Semantics, parameters: dict[str, Any]) -> Scheme:
    """Make the scheme of a sum. Centring and division are of the sum, and other parameters of the terms that have them."""
    if encoder := parameters.get("merge"):
        raise ConfigError(f"merge={encoder!r} merges the states of one scheme, and {text} is a sum")
    shared = {option: parameters.pop(option) for option in SHARED_OPTIONS if option in parameters}
    terms = parsed_sum(text)
    known_by = {name: lookup(name).preset(semantics) for _, name in terms}
    for parameter in parameters:
        if not any(parameter in preset for preset in known_by.values()):
            every = dict.fromkeys(option for preset in known_by.values() for option in preset)
            raise unknown_name_error(f"parameter of any scheme in {text!r}", parameter, (*every, *SHARED_OPTIONS))
    weighted_schemes = [
        (weight, make(name, semantics=semantics, **{p: v for p, v in parameters.items() if p in known_by[name]}))
        for weight, name in terms
    ]
    return weighted(Sum(weighted_schemes), **shared)


def describe(name: str) -> str:
    """Describe a scheme: its formula, its source, and its parameters under each semantics; of a sum every scheme in turn."""
    if is_sum(name):
        return "\n\n".join(
            [f"{make(name).name}: the weighted sum of", *(describe(term) for _, term in parsed_sum(name))]
        )
    scheme = lookup(name)
    hints, ranges = get_type_hints(scheme), scheme.all_ranges()
    presets = {semantics: scheme.preset(semantics) for semantics in scheme.presets}
    rows = [["parameter", *presets, "values"]]
    for f in fields(scheme):
        hint = hints[f.name]
        if get_origin(hint) is Literal:
            kind = " | ".join(map(str, get_args(hint)))
        else:
            kind = hint.__name__ if isinstance(hint, type) else str(hint)
            kind += f" in {ranges[f.name]}" if f.name in ranges else ""
        rows.append([f.name, *(str(preset[f.name]) for preset in presets.values()), kind])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [map(str.ljust, row, widths) for row in rows]
    table = "\n".join("  ".join(line).rstrip() for line in lines)
    inherited = [base for base in scheme.__mro__[1:] if issubclass(base, Scheme) and base is not Scheme]
    sections = [
        f"{scheme.name}: {inspect.cleandoc(scheme.__doc__ or '')}",
        *(inspect.cleandoc(base.__doc__ or "") for base in inherited),
        f"Source: {scheme.source}",
        f"Declared properties: {', '.join(sorted(scheme.properties)) or 'none'}",
        f"Annotations needed: {', '.join(scheme.requires) or 'none'}",
        f"Fields of the task needed: {', '.join(scheme.task_fields) or 'none'}",
        table,
    ]
    return "\n\n".join(sections)
