"""``KEY=VALUE`` on the command line: one rule for ``--set`` and ``--env-set`` of every command.

A key names a setting, with dots into sections (``update.optimizer.lr=1e-6``). A value is JSON in which texts may go
without quotes: ``3``, ``1e-6``, ``true``, ``null``, ``sokoban``, ``[small-v1:train, other:test]``, ``{height: 6}``.
Anything other than a number, ``true``, ``false`` or ``null`` is a text, and so is anything in double quotes (``"3"``). No
package is needed, so commands of the core install and of the trainer accept the same syntax.
"""

from __future__ import annotations

import copy
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NoReturn

from creditflow.envs.errors import ConfigError, DataError, short_repr
from creditflow.envs.reading.limits import SETTINGS
from creditflow.envs.reading.plain_data import check_plain

__all__ = ["apply_overrides", "read_value", "with_variables"]

_QUOTED: Final = json.decoder.JSONDecoder()
_ITEM: Final = re.compile(r"[^,\[\]{}\"]*")
_KEY: Final = re.compile(r"[^:,\[\]{}\"]*")
_SPACE: Final = re.compile(r"\s*")


def apply_overrides(data: Mapping[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """A copy of ``data`` with every ``a.b=value`` applied.

    >>> apply_overrides({"update": {"lr": 1e-6}}, ["update.lr=3e-6", "name=x"])
    {'update': {'lr': 3e-06}, 'name': 'x'}

    Raises:
        ConfigError: not of this form, a key that is given twice, or one below a plain value.
    """
    out: dict[str, Any] = copy.deepcopy(dict(data))
    given = set[str]()
    for override in overrides:
        key, equals, text = override.partition("=")
        parts = key.split(".")
        if not equals or not all(part and part == part.strip() for part in parts):
            raise ConfigError(
                f"a setting is written KEY=VALUE, as in update.iterations=9; got {short_repr(override, 200)}"
            )
        if key in given:
            raise ConfigError(f"setting {short_repr(key, 200)} is given twice")
        given.add(key)
        section = out
        for part in parts[:-1]:
            below = section.setdefault(part, {})
            if not isinstance(below, dict):
                raise ConfigError(f"{short_repr(override, 200)}: {part} is a value, not a section")
            section = below
        section[parts[-1]] = read_value(text, key)
    return out


def read_value(text: str, key: str) -> Any:
    """The value after ``key=``.

    >>> [read_value(text, "key") for text in ("1e-6", "sokoban", "[a:b, 2, '']", '"3"', "{on: true}", "")]
    [1e-06, 'sokoban', ['a:b', 2, "''"], '3', {'on': True}, '']

    Raises:
        ConfigError: a list, section or quoted text that is not well-formed, or a number that is too large.
    """
    if len(text) > SETTINGS.characters:
        raise ConfigError(f"{key}: longer than {SETTINGS.characters:,} characters")
    value = _Reader(text, key).whole() if text.lstrip()[:1] in ("[", "{", '"') else _word(text)
    try:
        check_plain(value, SETTINGS, key)
    except DataError as error:
        raise ConfigError(str(error)) from error
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a valid JSON number")


def _word(text: str) -> Any:
    """A number, true, false or null, or the text itself."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except ValueError:
        return text


class _Reader:
    """Reads one list, section or quoted text from the left to the right."""

    def __init__(self, text: str, key: str) -> None:
        self._text, self._key, self._at = text, key, 0

    def whole(self) -> Any:
        """The value; nothing may follow it."""
        value = self._value(0)
        if self._next():
            self._fail("more text follows")
        return value

    def _value(self, depth: int) -> Any:
        if depth > SETTINGS.depth:
            raise ConfigError(f"{self._key}: nested deeper than {SETTINGS.depth} levels")
        match self._next():
            case "[":
                return self._items("]", lambda: self._value(depth + 1))
            case "{":
                pairs = self._items("}", lambda: self._pair(depth + 1))
                section = dict(pairs)
                if len(section) != len(pairs):
                    self._fail("a key stands twice in one section")
                return section
            case '"':
                return self._quoted()
            case _:
                word = self._match(_ITEM).strip()
                return _word(word) if word else self._fail("expected a value")

    def _pair(self, depth: int) -> tuple[str, Any]:
        quoted = self._next() == '"'
        key = self._quoted() if quoted else self._match(_KEY).strip()
        if self._next() != ":" or not (key or quoted):
            self._fail("expected KEY: VALUE")
        self._at += 1
        return key, self._value(depth)

    def _items(self, close: str, read: Callable[[], Any]) -> list[Any]:
        self._at += 1
        found: list[Any] = []
        while self._next() != close:
            if found:
                if self._next() != ",":
                    self._fail(f"expected , or {close}")
                self._at += 1
            found.append(read())
        self._at += 1
        return found

    def _quoted(self) -> Any:
        try:
            value, self._at = _QUOTED.raw_decode(self._text, self._at)
        except ValueError as error:
            raise ConfigError(f"{self._key}: a quoted text is not JSON: {error}") from error
        return value

    def _match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        word = found.group() if found else ""
        self._at += len(word)
        return word

    def _next(self) -> str:
        """Skip white space; the next character, "" at the end."""
        self._match(_SPACE)
        return self._text[self._at : self._at + 1]

    def _fail(self, why: str) -> NoReturn:
        raise ConfigError(
            f"{self._key}: {why} at character {self._at + 1} of {short_repr(self._text, 200)}; a text that begins like a list, a "
            "section or a quotation is written as JSON writes it, in double quotes"
        )


_VARIABLE: Final = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")


def with_variables(value: Any, where: str) -> Any:
    """Return plain data whose texts have the values of environment variables for $NAME and ${NAME}; for paths, which differ by machine.

    Args:
        value: a text, a list or a mapping.
        where: its name in messages.

    Raises:
        ConfigError: a variable is not set.
    """
    if isinstance(value, dict):
        return {name: with_variables(item, f"{where}.{name}") for name, item in value.items()}
    if isinstance(value, list):
        return [with_variables(item, where) for item in value]
    if not isinstance(value, str):
        return value

    def of(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name not in os.environ:
            raise ConfigError(
                f"{where}: {short_repr(value)} names the environment variable {name}, which is not set: export {name}=…"
            )
        return os.environ[name]

    return _VARIABLE.sub(of, value)
