"""The argument parser of every command: no abbreviations, and an unknown option is answered with the nearest known one."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NoReturn

from creditflow.envs.errors import unknown_name_error

__all__ = ["CommandParser"]

_NUMBER: Final = re.compile(r"-\.?\d")


class CommandParser(argparse.ArgumentParser):
    """argparse with better errors for wrong options.

    argparse reports a missing argument first, even if it is missing only because its name was misspelt, and suggests nothing
    for an unknown option. Wrong usage ends the program with one line and exit code 2. Help shows the first two paragraphs of
    the description (what the command does, and examples) above the options, and the others below them.
    """

    def __init__(self, *, description: str | None = None, **settings: Any) -> None:
        paragraphs = (description or "").split("\n\n")
        parts = {"description": "\n\n".join(paragraphs[:2]), "epilog": "\n\n".join(paragraphs[2:]) or None}
        formatter = argparse.RawDescriptionHelpFormatter
        super().__init__(**{"allow_abbrev": False, "formatter_class": formatter, **parts, **settings})
        self._actions_by_name: Mapping[
            str, CommandParser
        ] = {}  # of a command with several actions, each with its own parser

    def add_subparsers(self, **settings: Any) -> Any:
        """Define the actions of this command; the arguments after an action's name are left to that action's parser."""
        actions = super().add_subparsers(**settings)
        self._actions_by_name = actions.choices
        return actions

    def leaves(self) -> Iterator[CommandParser]:
        """The parsers of this command's actions, and of theirs; of a command without actions, itself."""
        below = dict.fromkeys(self._actions_by_name.values())
        if not below:
            yield self
        for parser in below:
            yield from parser.leaves()

    def parse_known_args(self, args: Iterable[str] | None = None, namespace: Any = None) -> Any:
        """Reject unknown options, then parse as argparse does."""
        words = sys.argv[1:] if args is None else list(args)
        for word in words:
            if word == "--" or (self._actions_by_name and not self._is_option(word)):
                break
            name = word.partition("=")[0]
            if self._is_option(word) and name not in self._option_string_actions:
                self.error(str(unknown_name_error("option", name, self._option_string_actions)))
        return super().parse_known_args(words, namespace)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Answer an unknown action or choice with the nearest known one."""
        if action.choices is not None and value not in action.choices:
            self.error(str(unknown_name_error(action.dest, value, action.choices)))

    def error(self, message: str) -> NoReturn:
        """End the program with one line instead of argparse's usage."""
        self.exit(2, f"{self.prog}: {message}\n")

    @staticmethod
    def _is_option(word: str) -> bool:
        """Whether argparse takes a word for an option: it begins with a dash, is not "-" or a number, and has no space."""
        return word.startswith("-") and word != "-" and " " not in word and not _NUMBER.match(word)
