"""How commands and programs are run: their parser, their errors as one line, their exit codes.

The parser has no abbreviations and answers an unknown option with the nearest known one. A program is a module with ``add_arguments`` and ``run``, like a command, that is run by ``python -m``. Its ``args`` also have
``command_line``, for the provenance of its results.

Any of them takes code: ``--load SPEC``, and a spec wherever it names a scheme, an environment or an agent. A spec is
``path/to/file.py:NAME`` or ``package.module:NAME``. It is loaded, which runs it, and replaced by the name of what it defines. A
command declares which of its arguments take one with ``add_code``; of ``--set`` those in ``SETTINGS`` do. Only the command line is
searched: a spec in a settings file needs ``--load`` beside it.
"""

from __future__ import annotations

import argparse
import os
import re
import select
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from types import ModuleType
from typing import Any, Final, NamedTuple, NoReturn

from creditflow.envs.errors import (
    ConfigError,
    CreditflowError,
    DataError,
    MissingExtraError,
    UnknownTaskError,
    printable,
    unknown_name_error,
)
from creditflow.envs.plugins import Kind, names_code
from creditflow.envs.reading.failures import summary

__all__ = [
    *("CodeArgument", "CommandParser", "add_code", "add_load", "load_named"),
    *("reported", "run_module", "run_program"),
]

SETTINGS: Final[dict[str, Kind]] = {"credit.scheme": "scheme", "env.name": "environment"}
FILES: Final = "plugin_files"
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


class CodeArgument(NamedTuple):
    """An argument that takes names or specs of one kind; ``listed``: several, separated by commas."""

    name: str
    kind: Kind
    listed: bool


def add_code(parser: argparse.ArgumentParser, flag: str, kind: Kind, *, listed: bool = False, **settings: Any) -> None:
    """Define an argument that takes a name, or a spec; ``listed``: several, separated by commas."""
    action = parser.add_argument(flag, **settings)
    argument = CodeArgument(action.dest, kind, listed)
    parser.set_defaults(code_names=(*(parser.get_default("code_names") or ()), argument))


def add_load(parser: argparse.ArgumentParser) -> None:
    """Define ``--load``."""
    parser.add_argument(
        "--load",
        action="append",
        default=[],
        metavar="SPEC",
        help="load your own scheme, environment or agent: path/to/file.py:NAME or package.module:NAME; runs the code in it (repeatable)",
    )


def load_named(args: argparse.Namespace) -> None:
    """Load the code that the arguments name, and put the names of what it defines in its place; its files become inputs.

    Raises:
        ConfigError: it cannot be loaded.
    """
    for spec in args.load:
        from creditflow.train.rollout.plugins import load_plugin

        load_plugin(spec)
    for argument, kind, listed in getattr(args, "code_names", ()):
        value = getattr(args, argument)
        if isinstance(value, list):
            setattr(args, argument, [_name(kind, text) for text in value])
        elif isinstance(value, str):
            texts = value.split(",") if listed else [value]
            setattr(args, argument, ",".join(_name(kind, text) for text in texts))
    if isinstance(getattr(args, "set", None), list):
        args.set = [_setting(text) for text in args.set]
    from creditflow.envs.plugins import loaded

    setattr(args, FILES, [str(plugin.code.file) for plugin in loaded() if plugin.code.file is not None])
    args.input_names = (*getattr(args, "input_names", ()), FILES)


def _setting(text: str) -> str:
    key, equals, value = text.partition("=")
    return f"{key}={_name(SETTINGS[key], value)}" if equals and key in SETTINGS else text


def _name(kind: Kind, text: str) -> str:
    """The name of what a spec defines; any other text as it is."""
    if kind == "agent" and _is_agent(text):
        return text
    if not names_code(text) and not text.endswith(".py"):
        return text
    from creditflow.train.rollout.plugins import load_plugin_of

    return load_plugin_of(kind, text)


def _is_agent(text: str) -> bool:
    """Whether a text with colons is an agent's name with its argument, such as ``hf:PATH``."""
    from creditflow.agents.registry import REGISTRY

    return text.partition(":")[0] in REGISTRY.shipped()


def run_program(name: str, arguments: Sequence[str] | None = None, *, script: str = "") -> int:
    """Run a program; returns its exit code.

    Args:
        name: full name of its module.
        arguments: command-line arguments; by default those of the process.
        script: the file that a reader calls it by, from the root of a checkout; without one it is called by ``python -m``.
    """
    module = import_module(name)
    parser = CommandParser(prog=f"python {script}" if script else f"python -m {name}", description=module.__doc__)
    parser.add_argument("--traceback", action="store_true", help="show the traceback of an error")
    module.add_arguments(parser)
    add_load(parser)
    words = sys.argv[1:] if arguments is None else list(arguments)
    args = parser.parse_args(words)
    args.command_line = " ".join([parser.prog, *words])
    again = " ".join([parser.prog, "--traceback", *words])
    return reported(lambda: run_module(module, args), show_traceback=args.traceback, again=again)


def run_module(module: ModuleType, args: argparse.Namespace) -> int:
    """Load the code that its arguments name, and run a module's command with its outputs claimed; returns its exit code."""
    from creditflow.train.arguments.outputs import claimed_by  # imported late: help does not need it

    load_named(args)
    from creditflow.envs.plugins import naming_plugins  # imported late, as above

    with claimed_by(args), naming_plugins():
        return int(module.run(args))


def reported(work: Callable[[], int], *, show_traceback: bool, again: str) -> int:
    """Run a command with errors as one line on standard error; returns the exit code.

    Args:
        work: the command.
        show_traceback: print the traceback of an error too.
        again: the command line that shows the traceback, for bug reports.
    """
    for stream in (sys.stdout, sys.stderr):  # a terminal's encoding may lack a character: it is shown as an escape
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        return work()
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except (CreditflowError, OSError) as error:
        if isinstance(error, BrokenPipeError) and _unread_output():
            # not an error; keeps Python from reporting one at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        if show_traceback:
            traceback.print_exc()
        print(printable(f"creditflow: {_place(error)}{_message(error)}"), file=sys.stderr)
        return _exit_code(error)
    except Exception as error:  # noqa: BLE001 - any other error is a defect; the message explains how to report it
        if show_traceback:
            traceback.print_exc()
        print(
            f"creditflow: a defect in creditflow: {summary(error)}\nPlease report it with the output of: {again}",
            file=sys.stderr,
        )
        return 1


def _unread_output() -> bool:
    """Whether the reader of our output has closed the pipe; another pipe or connection may break too."""
    poll = select.poll()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # closed, or no file: nothing to ask the system about
            poll.register(stream.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def _place(error: Exception) -> str:
    """The foreign environment that raised an error of the system."""
    from creditflow.envs.foreign.failures import failed_environment  # imported late, as above

    return f"{culprit} failed: " if isinstance(error, OSError) and (culprit := failed_environment(error)) else ""


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _exit_code(error: Exception) -> int:
    if isinstance(error, ConfigError):
        return 2
    if isinstance(error, DataError | MissingExtraError | UnknownTaskError | FileNotFoundError):
        return 3
    return 1
