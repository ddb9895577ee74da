"""The compared methods by name: every scheme with the settings under which it is compared, and the controls.

A scheme that reads annotations becomes a method only together with an annotation source (see ``annotation_sources``):
``pica[fitted]``, ``pica[exact]``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Literal

import numpy as np

from creditflow.envs.errors import ConfigError, unknown_name_error
from creditflow.train.bench.controls import CreditFunction, flipped, shuffled
from creditflow.train.bench.names import MethodName, value_text
from creditflow.wrappers import credit
from creditflow.wrappers.credit.base import is_sum
from creditflow.wrappers.credit.registry import known, lookup, option_names

__all__ = [
    "ANNOTATION_SOURCES",
    "SETTINGS",
    "Generators",
    "SchemeEntry",
    "base_method",
    "bound_scheme",
    "can_be_annotated",
    "canonical_name",
    "default_schemes",
    "is_control",
    "played_method",
    "reads_texts",
    "scheme_entry",
    "settings_of",
    "with_annotation_sources",
    "with_corruption",
]

Key = Literal["state", "text"]
# values under which a scheme is compared where they differ from the paper's
SETTINGS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "graphgpo": {"distance_discount": 0.8},
        # its penalty grows by half with each turn, which suits episodes of five turns; there is no critic of its shaped
        # rewards, so the group mean is the baseline
        "pica": {"penalty": 0.0, "baseline": "group"},
    }
)
ANNOTATION_SOURCES: Mapping[str, str] = MappingProxyType(
    {
        "fitted": "annotations are means over earlier rollouts (8 additional groups for the one-step metrics, none while learning)",
        "linear": "annotations are a logistic regression's on features of states, fitted to earlier rollouts",
        "exact": "annotations are the exact V^π, which no method has in practice",
    }
)
PROVIDED_ANNOTATIONS: Final = frozenset({"value.critic", "value.pica", "logp.answer.mean", "judge.score"})
# how annotations are defined without a language model
TABULAR_MEANING: Mapping[str, str] = MappingProxyType(
    {
        "igpo": "success stands for the golden answer",
        "prm": "the turn score is the change of the probability of success",
    }
)


@dataclass(frozen=True, slots=True)
class SchemeEntry:
    """A scheme with the settings under which it is compared.

    Attributes:
        scheme: registry name, or a sum of them.
        parameters: options that differ from the paper's preset.
        annotation_source: one of ``ANNOTATION_SOURCES``; "" for a scheme that reads no annotations.
    """

    scheme: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    annotation_source: str = ""

    def scheme_for(self, horizon: int, key: Key) -> credit.Scheme:
        """The scheme for tasks with this turn limit, comparing states by this key."""
        names = option_names(self.scheme)
        values = dict(self.parameters)
        if "key" in names:
            values["key"] = key
        if "horizon" in names:
            values.setdefault("horizon", horizon)
        return credit.make(self.scheme, **values)


def default_schemes(annotated: bool) -> tuple[str, ...]:
    """The schemes compared when none are named: every registered one, on request with sources of the annotations that they read."""
    return with_annotation_sources(credit.names()) if annotated else tuple(credit.names())


def can_be_annotated(name: str) -> bool:
    """Whether a scheme reads annotations, and an annotation source provides all of them."""
    scheme = scheme_entry(name).scheme_for(1, "state")
    return bool(scheme.needs) and not scheme.requires_tokens and {*scheme.needs} <= PROVIDED_ANNOTATIONS


def with_annotation_sources(names: Sequence[str]) -> tuple[str, ...]:
    """The names with ``[fitted]`` added to each scheme that reads annotations and names no source."""
    return tuple(dict.fromkeys(f"{n}[fitted]" if "[" not in n and can_be_annotated(n) else n for n in names))


def base_method(name: str) -> str:
    """The method that a negative control corrupts; any other name is returned as it is.

    >>> base_method("shuffled(pica[fitted])")
    'pica[fitted]'
    """
    return str(replace(MethodName.parse(name), corruptions=()))


def scheme_entry(name: str) -> SchemeEntry:
    """A scheme by name: a registered scheme with its ``SETTINGS``, or a sum of schemes in paper semantics.

    A scheme may have values of parameters, such as ``graphgpo{distance_discount=0.3}``, and an annotation source.

    Raises:
        ConfigError: a name or value is unknown (the message suggests the nearest one), or the scheme reads no annotations.
    """
    if is_sum(name) and "{" not in name:
        credit.make(name)  # its errors
        return SchemeEntry(name)
    parsed = MethodName.parse(name)
    if parsed.source:
        base = str(replace(parsed, source=""))
        if parsed.source not in ANNOTATION_SOURCES:
            raise unknown_name_error("annotation source", name, [f"{base}[{source}]" for source in ANNOTATION_SOURCES])
        if not can_be_annotated(base):
            raise ConfigError(
                f"method {name!r}: {base} reads no annotations that the benchmark provides; write {base!r}"
            )
        return replace(scheme_entry(base), annotation_source=parsed.source)
    if parsed.values and not parsed.corruptions:
        entry = scheme_entry(parsed.scheme)
        return replace(entry, parameters={**entry.parameters, **parsed.typed(lookup(entry.scheme))})
    if known(name):
        return SchemeEntry(name, SETTINGS.get(name, {}))
    raise unknown_name_error("credit scheme", name, credit.names())


def canonical_name(name: str) -> str:
    """The name with each value in its one form, so that equal schemes have equal names.

    >>> canonical_name("graphgpo{distance_discount=.30}")
    'graphgpo{distance_discount=0.3}'

    Raises:
        ConfigError: the name is not one of a method, or a value is out of range.
    """
    entry, variant = scheme_entry(name), MethodName.parse(name)
    entry.scheme_for(1, "state")  # its errors
    typed = variant.typed(lookup(entry.scheme)) if variant.values else {}
    return str(replace(variant, values={parameter: value_text(value) for parameter, value in typed.items()}))


def settings_of(names: Sequence[str]) -> dict[str, str]:
    """Descriptions of the schemes that differ from their paper's preset, by name."""
    described = {}
    for name in names:
        entry = scheme_entry(name)
        preset = lookup(entry.scheme).preset("paper") if entry.parameters else {}
        differences = [f"{key}={value}" for key, value in entry.parameters.items() if value != preset[key]]
        clauses = [f"{entry.scheme} with {', '.join(differences)}"] if differences else []
        if entry.annotation_source:
            clauses.append(ANNOTATION_SOURCES[entry.annotation_source])
            if entry.scheme in TABULAR_MEANING:
                clauses.append(TABULAR_MEANING[entry.scheme])
        if clauses:
            described[name] = "; ".join(clauses)
    return described


def played_method(name: str, horizon: int, seed: Sequence[int]) -> CreditFunction:
    """The credit function of a method on recorded rollouts, whose exact advantages are unknown.

    Args:
        name: name of a scheme, or ``shuffled(X)`` or ``flipped(X)`` of one.
        horizon: turn limit.
        seed: non-negative integers, which together with a control's name seed its shuffling.
    """
    return with_corruption(name, lambda scheme: bound_scheme(scheme, horizon, "state").assign, Generators(seed))


def reads_texts(name: str, horizon: int) -> bool:
    """Whether a method, or the one it corrupts, reads the texts of turns, so that rollouts must record them."""
    name = base_method(name)
    return not is_control(name) and bool(scheme_entry(name).scheme_for(horizon, "state").texts)


def is_control(name: str) -> bool:
    """Whether a name is that of the uncorrupted control that is no scheme: the exact advantage."""
    return name == "oracle_adv"


class Generators:
    """The generators of shuffled controls: one for each name, whatever else is compared.

    Args:
        seed: non-negative integers.
    """

    def __init__(self, seed: Sequence[int]) -> None:
        self._seed, self._by_name = seed, dict[str, np.random.Generator]()

    def of(self, name: str) -> np.random.Generator:
        """The generator of a control, which goes on where it was left."""
        if name not in self._by_name:
            digest = hashlib.blake2b(name.encode(), digest_size=8).digest()  # not hash(): equal in every process
            self._by_name[name] = np.random.default_rng([*self._seed, int.from_bytes(digest, "big")])
        return self._by_name[name]


def with_corruption(name: str, uncorrupted: Callable[[str], CreditFunction], generators: Generators) -> CreditFunction:
    """The method of a name, given the methods of names without ``shuffled`` and ``flipped``."""
    parsed = MethodName.parse(name)
    if not parsed.corruptions:
        return uncorrupted(name)
    inner = with_corruption(str(replace(parsed, corruptions=parsed.corruptions[1:])), uncorrupted, generators)
    if parsed.corruptions[0] == "flipped":
        return flipped(inner)
    return shuffled(inner, generators.of(name))


@lru_cache(maxsize=256)
def bound_scheme(name: str, horizon: int, key: Key) -> credit.Scheme:
    """The scheme of a name for tasks with this turn limit, comparing states by this key.

    It is cached: construction validates a scheme, and a learning curve would construct thousands.
    """
    return scheme_entry(name).scheme_for(horizon, key)
