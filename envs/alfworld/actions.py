"""Commands, decoded: the common language of rules, history and backends."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Menu", "Op"]


class Op(NamedTuple):
    """One command, decoded.

    Attributes:
        verb: "go", "open", "close", "take", "put", "clean", "heat", "cool", "use", "slice", "examine" (a receptacle),
            "inspect" (the held object), "inventory", "look" or "help".
        thing: object number, −1 if none.
        place: receptacle number (for "slice": number of the knife), −1 if none.
    """

    verb: str
    thing: int = -1
    place: int = -1


class Menu(NamedTuple):
    """The admissible commands of a state.

    Attributes:
        commands: in the engine's order (sorted as strings).
        ops: command -> what it means.
    """

    commands: tuple[str, ...]
    ops: dict[str, Op]
