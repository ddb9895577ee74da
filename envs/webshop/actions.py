"""Parsing of ``search[words]`` and ``click[name]``.

The rule is the original's: the verb is everything before the last opening bracket that is followed by a closing one, the
argument is everything between that bracket and the last closing one, and the rest is ignored. Only the first line
counts. The argument is lower-cased, the verb is not.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ShopAction", "parse_action", "searchable"]


class ShopAction(NamedTuple):
    """A verb ("search" and "click" are known) and its lower-case argument."""

    verb: str
    argument: str

    def __str__(self) -> str:
        return f"{self.verb}[{self.argument}]"


def parse_action(text: str) -> ShopAction | None:
    """The action, or None if the text is not of the form ``verb[argument]``. Linear time for any input.

    >>> parse_action("click[Buy Now] please"), parse_action("a[b[c]"), parse_action("click[]")
    (ShopAction(verb='click', argument='buy now'), ShopAction(verb='a[b', argument='c'), None)
    """
    line = text.partition("\n")[0]
    end = line.rfind("]")
    begin = line.rfind("[", 1, end - 1) if end > 1 else -1
    if begin < 1:
        return None
    return ShopAction(line[:begin], line[begin + 1 : end].lower())


def searchable(text: str) -> str:
    """The text as an argument that survives ``parse_action``: one line without brackets, lower-case.

    >>> searchable("Tea [green]")
    'tea green'
    """
    return " ".join(text.lower().replace("[", " ").replace("]", " ").split())
