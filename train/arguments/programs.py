"""Programs beside ``creditflow``, with the same parser, output rules, error messages and exit codes.

A program is a module with ``add_arguments`` and ``run``, like a command, that is run by ``python -m``. Its ``args`` also have
``command_line``, for the provenance of its results.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Final

from creditflow.envs.errors import ConfigError, CreditflowError, DataError, MissingExtraError, UnknownTaskError
from creditflow.train.arguments.parser import CommandParser
from creditflow.train.arguments.plugins import add_load, load_named

__all__ = ["PROGRAMS", "reported", "run_module", "run_program"]

PROGRAMS: Final = (
    "creditflow.train.commands.programs.verl_data",
    "creditflow.train.commands.programs.differences",
    "creditflow.train.commands.programs.regimes",
    "creditflow.train.cards.cost",
    "creditflow.train.cards.figures",
)


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
    with claimed_by(args):
        try:
            return int(module.run(args))
        except SystemExit as error:  # of a plug-in: the command would end without a word, perhaps with success
            from creditflow.train.rollout.plugins import failed_in  # imported late, as above

            culprit = failed_in(error) or "the code that this command runs"
            raise CreditflowError(
                f"{culprit} ended the program, by sys.exit({error.code!r}); raise an error instead"
            ) from error


def reported(work: Callable[[], int], *, show_traceback: bool, again: str) -> int:
    """Run a command with errors as one line on standard error; returns the exit code.

    Args:
        work: the command.
        show_traceback: print the traceback of an error too.
        again: the command line that shows the traceback, for bug reports.
    """
    try:
        return work()
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # the reader of our output has closed the pipe: not an error; keeps Python from reporting one at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (CreditflowError, OSError) as error:
        if show_traceback:
            traceback.print_exc()
        print(f"creditflow: {_place(error)}{_message(error)}", file=sys.stderr)
        return _exit_code(error)
    except Exception as error:  # noqa: BLE001 - any other error is a defect; the message explains how to report it
        if show_traceback:
            traceback.print_exc()
        from creditflow.train.rollout.plugins import failed_in  # imported late: only a defect needs it

        if culprit := failed_in(error):
            print(f"creditflow: {culprit} failed: {type(error).__name__}: {error}", file=sys.stderr)
            return 1
        print(
            f"creditflow: a defect in creditflow: {type(error).__name__}: {error}\n"
            f"Please report it with the output of: {again}",
            file=sys.stderr,
        )
        return 1


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
