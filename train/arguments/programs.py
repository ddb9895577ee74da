"""Programs beside ``creditflow``, with the same parser, output rules, error messages and exit codes.

A program is a module with ``add_arguments`` and ``run``, like a command, that is run by ``python -m``. Its ``args`` also have
``command_line``, for the provenance of its results.
"""

from __future__ import annotations

import argparse
import os
import select
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from types import ModuleType
from typing import Final

from creditflow.envs.errors import (
    ConfigError,
    CreditflowError,
    DataError,
    MissingExtraError,
    UnknownTaskError,
    printable,
)
from creditflow.envs.reading.failures import summary
from creditflow.train.arguments.parser import CommandParser
from creditflow.train.arguments.plugins import add_load, load_named

__all__ = ["PROGRAMS", "reported", "run_module", "run_program"]

PROGRAMS: Final = ("creditflow.train.commands.programs.verl_data",)


def run_program(name: str, arguments: Sequence[str] | None = None, *, script: str = "") -> int:
    """Run a program; returns its exit code.

    Args:
        name: full name of its module: one of ``PROGRAMS``, or of a program outside the package.
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
    from creditflow.train.rollout.plugins import naming_plugins  # imported late, as above

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
