"""Names of methods: a scheme with given parameters and an annotation source, or a negative control of one.

    graphgpo{distance_discount=0.3;discount=1}     a scheme with values of parameters
    pica{discount=0.9}[fitted]                     with the source of the annotations that it reads
    shuffled(flipped(grouptd))                     a control, which corrupts the credit of the method inside

A name says all that differs. Tables, plots, results and the identity of a run hold names only, and every process makes the method
from its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from creditflow.envs.errors import ConfigError, short_repr, unknown_name_error
from creditflow.wrappers.credit import Scheme

__all__ = ["CORRUPTIONS", "MethodName", "typed_value", "value_text"]

CORRUPTIONS: Final = ("shuffled", "flipped")


@dataclass(frozen=True, slots=True)
class MethodName:
    """The parts of a method's name.

    Attributes:
        scheme: the name of the scheme or of an uncorrupted control.
        values: texts of the given values, by parameter.
        source: name of the annotation source; "" for none.
        corruptions: those of ``CORRUPTIONS`` that are applied, the last one first.
    """

    scheme: str
    values: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    corruptions: tuple[str, ...] = ()

    @classmethod
    def parse(cls, name: str) -> MethodName:
        """Split a name.

        >>> MethodName.parse("shuffled(pica{discount=0.9}[fitted])")
        MethodName(scheme='pica', values={'discount': '0.9'}, source='fitted', corruptions=('shuffled',))

        Raises:
            ConfigError: brackets are not closed, or braces hold something else than ``parameter=value``, or a parameter twice.
        """
        corruptions = list[str]()
        inner = name
        while inner.endswith(")") and inner.partition("(")[0] in CORRUPTIONS:
            corruption, _, inner = inner[:-1].partition("(")
            corruptions.append(corruption)
        rest, bracket, source = inner.partition("[")
        if bracket and (not source.endswith("]") or source == "]"):
            raise ConfigError(f"method {short_repr(name)}: expected NAME[SOURCE], such as pica[fitted]")
        scheme, brace, inside = rest.partition("{")
        values: dict[str, str] = {}
        for assignment in inside.removesuffix("}").split(";") if brace else ():
            parameter, equals, value = assignment.partition("=")
            if not inside.endswith("}") or not parameter or not equals or not value or parameter in values:
                raise ConfigError(
                    f"method {short_repr(name)}: expected NAME{{PARAMETER=VALUE;…}} with each parameter once, such as "
                    "graphgpo{distance_discount=0.3}"
                )
            values[parameter] = value
        return cls(scheme, values, source.removesuffix("]"), tuple(corruptions))

    def typed(self, scheme: type[Scheme]) -> dict[str, Any]:
        """The values in the types of the scheme's parameters.

        Raises:
            ConfigError: a parameter is unknown or set by the suite, or a value has another type.
        """
        return {name: typed_value(scheme, name, text) for name, text in self.values.items()}

    def __str__(self) -> str:
        values = ";".join(f"{name}={text}" for name, text in self.values.items())
        name = f"{self.scheme}{'{' + values + '}' if values else ''}{f'[{self.source}]' if self.source else ''}"
        for corruption in reversed(self.corruptions):
            name = f"{corruption}({name})"
        return name


def typed_value(scheme: type[Scheme], name: str, text: str) -> Any:
    """The value of a parameter from its text.

    Raises:
        ConfigError: the parameter is unknown or set by the suite, or the text is no value of its type.
    """
    parameters = scheme.preset("paper")
    if name not in parameters:
        raise unknown_name_error(f"parameter of {scheme.name}", name, parameters)
    if name == "key":
        raise ConfigError(f"{scheme.name}.key cannot be given: the suite decides by which key states are compared")
    hint = get_type_hints(scheme)[name]
    if get_origin(hint) is Literal:
        choices = {str(choice): choice for choice in get_args(hint)}
        if text not in choices:
            raise unknown_name_error(f"value of {scheme.name}.{name}", text, choices)
        return choices[text]
    if hint is bool:
        if text not in ("true", "false"):
            raise unknown_name_error(f"value of {scheme.name}.{name}", text, ("true", "false"))
        return text == "true"
    if hint in (int, float):
        try:
            return hint(text)
        except ValueError:
            kind = "an integer" if hint is int else "a number"
            raise ConfigError(f"{scheme.name}.{name} must be {kind}, got {short_repr(text)}") from None
    return text


def value_text(value: Any) -> str:
    """The one text of a value in names.

    >>> value_text(0.30), value_text(1.0), value_text(True)
    ('0.3', '1', 'true')
    """
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)
