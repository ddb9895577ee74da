"""``--sweep PARAMETER=VALUE,VALUE``: each scheme that has the parameter is compared with every value, as the papers' tables do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import Final, NamedTuple

from creditflow.envs.errors import ConfigError, short_repr, unknown_name_error
from creditflow.train.bench.methods import scheme_entry
from creditflow.train.bench.names import MethodName, check_parameter_name, typed_value, value_text
from creditflow.wrappers.credit import Scheme
from creditflow.wrappers.credit.registry import lookup

__all__ = ["Sweep", "canonical_name", "parse_sweeps", "swept_names"]

MAX_VARIANTS: Final = 100  # of one scheme; each is a method with its own learning curves


class Sweep(NamedTuple):
    """Values of one parameter.

    Attributes:
        scheme: the scheme that is varied; "" for every scheme that has the parameter.
        parameter: name of the parameter.
        values: their texts as given.
    """

    scheme: str
    parameter: str
    values: tuple[str, ...]

    def __str__(self) -> str:
        return f"--sweep {f'{self.scheme}.' if self.scheme else ''}{self.parameter}={','.join(self.values)}"


def parse_sweeps(texts: Iterable[str]) -> list[Sweep]:
    """Read the values of ``--sweep``.

    >>> parse_sweeps(["graphgpo.distance_discount=.1,.3"])
    [Sweep(scheme='graphgpo', parameter='distance_discount', values=('.1', '.3'))]

    Raises:
        ConfigError: one is not of the form ``[SCHEME.]PARAMETER=VALUE,VALUE``, or varies what another one does.
    """
    sweeps = list[Sweep]()
    for text in texts:
        name, equals, values = text.partition("=")
        scheme, _, parameter = name.rpartition(".")
        sweep = Sweep(scheme, parameter, tuple(values.split(",")))
        if not equals or not parameter or not all(sweep.values):
            raise ConfigError(
                f"--sweep {short_repr(text)}: expected [SCHEME.]PARAMETER=VALUE,VALUE, such as distance_discount=.1,.3,.5"
            )
        if any(
            earlier.parameter == parameter and (not scheme or earlier.scheme in ("", scheme)) for earlier in sweeps
        ) or any(earlier.parameter == parameter and not earlier.scheme for earlier in sweeps):
            raise ConfigError(f"{sweep}: {parameter} is varied twice; give all of its values in one --sweep")
        sweeps.append(sweep)
    return sweeps


def canonical_name(name: str) -> str:
    """The name with each value in its one form, so that equal schemes have equal names.

    >>> canonical_name("graphgpo{distance_discount=.30}")
    'graphgpo{distance_discount=0.3}'
    """
    variant = MethodName.parse(name)
    typed = variant.typed(lookup(scheme_entry(variant.scheme).scheme)) if variant.values else {}
    return str(replace(variant, values={parameter: value_text(value) for parameter, value in typed.items()}))


def swept_names(names: Sequence[str], sweeps: Sequence[Sweep]) -> list[str]:
    """The names of the methods: a scheme with a varied parameter is replaced by the grid of its values, others stay.

    Args:
        names: the named schemes.
        sweeps: what is varied.

    Raises:
        ConfigError: no scheme is named, none has a parameter (the message suggests the nearest one), a value is invalid or
            given twice, or the grid is too large.
    """
    if sweeps and not names:
        raise ConfigError(f"{sweeps[0]}: list the schemes to vary, such as --schemes grpo,graphgpo")
    variants = {name: MethodName.parse(name) for name in map(canonical_name, names)}
    kinds = {name: type(scheme_entry(variant.scheme).scheme_for(1, "state")) for name, variant in variants.items()}
    for sweep in sweeps:
        _check(sweep, variants, kinds)
    out = list[str]()
    for name, variant in variants.items():
        of_scheme = [
            s for s in sweeps if s.scheme in ("", variant.scheme) and s.parameter in kinds[name].preset("paper")
        ]
        for sweep in of_scheme:
            if sweep.parameter in variant.values:
                raise ConfigError(f"{sweep}: {name} has a value of {sweep.parameter} already")
        texts = [_texts(sweep, kinds[name]) for sweep in of_scheme]
        if (size := prod(map(len, texts))) > MAX_VARIANTS:
            raise ConfigError(f"the grid of {name} has {size} variants; the limit is {MAX_VARIANTS}. Pass fewer values")
        for values in product(*texts):
            values_of_variant = {
                **variant.values,
                **{s.parameter: text for s, text in zip(of_scheme, values, strict=True)},
            }
            variant_name = str(replace(variant, values=values_of_variant))
            scheme_entry(variant_name).scheme_for(1, "state")  # its range
            out.append(variant_name)
    return list(dict.fromkeys(out))


def _check(sweep: Sweep, variants: dict[str, MethodName], kinds: dict[str, type[Scheme]]) -> None:
    """Check that some named scheme has the parameter."""
    named = [variant.scheme for variant in variants.values()]
    if sweep.scheme and sweep.scheme not in named:
        raise unknown_name_error("scheme among --schemes", sweep.scheme, named)
    having = [kinds[name] for name, variant in variants.items() if sweep.scheme in ("", variant.scheme)]
    with_it = [kind for kind in having if sweep.parameter in kind.preset("paper")]
    if not with_it:
        parameters = {parameter for kind in having for parameter in kind.preset("paper")}
        raise unknown_name_error(f"parameter of {', '.join(kind.name for kind in having)}", sweep.parameter, parameters)
    check_parameter_name(with_it[0], sweep.parameter)


def _texts(sweep: Sweep, kind: type[Scheme]) -> list[str]:
    """The values in their one form."""
    texts = [value_text(typed_value(kind, sweep.parameter, text)) for text in sweep.values]
    if len(set(texts)) < len(texts):
        raise ConfigError(f"{sweep}: a value is given twice")
    return texts
