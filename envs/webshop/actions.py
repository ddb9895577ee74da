"""``search[words]`` and ``click[name]``: how an action text is read.

The rule is the original's: everything before the last opening bracket that still has a closing one after it is the
verb, what stands between that bracket and the last closing one is the argument, and the rest of the text is ignored.
Only the first line counts. The argument is lower-cased, the verb is not.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ShopAction", "parse_action", "searchable"]


class ShopAction(NamedTuple):
    """A verb ("search" or "click" if it is to mean anything) and its lower-case argument."""

    verb: str
    argument: str

    def __str__(self) -> str:
        return f"{self.verb}[{self.argument}]"


def parse_action(text: str) -> ShopAction | None:
    """The action, or None if the text has not the form ``verb[argument]``. Takes linear time on any input.

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
