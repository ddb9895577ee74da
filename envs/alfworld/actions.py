"""Parsed commands, which rules, history and engines share."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["AdmissibleCommands", "ParsedCommand"]


class ParsedCommand(NamedTuple):
    """The verb of a command and the numbers of the things that it mentions.

    Attributes:
        verb: "go", "open", "close", "take", "put", "clean", "heat", "cool", "use", "slice", "examine" (a receptacle),
            "inspect" (the held object), "inventory", "look" or "help".
        obj: object number, −1 if none.
        receptacle: receptacle number (for "slice": number of the knife), −1 if none.
    """

    verb: str
    obj: int = -1
    receptacle: int = -1


class AdmissibleCommands(NamedTuple):
    """The admissible commands of a state.

    Attributes:
        commands: texts in the engine's order (sorted as strings).
        by_text: text of a command -> the parsed command.
    """

    commands: tuple[str, ...]
    by_text: dict[str, ParsedCommand]
