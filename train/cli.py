"""The ``creditflow`` command: one entry point, lazy imports, errors without tracebacks.

Exit codes are an interface: scripts may rely on them (``EXIT_CODES``).

Why argparse: ``creditflow --help`` must import nothing heavy and start at once; typer and cyclopts import rich (and
pydantic), tyro imports every annotated module. Most of the remaining start-up time is the import of Gymnasium and NumPy: importing
any part of the package registers its environments, which needs Gymnasium.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

from creditflow.envs.errors import unknown_name_error
from creditflow.train.arguments.programs import CommandParser, add_load, reported, run_module

__all__ = ["COMMANDS", "EXIT_CODES", "command_module", "command_parser", "main"]

EXIT_CODES = {
    0: "success",
    1: "failure: a check failed, or an error while working",
    2: "usage error (unknown name, option or value; output already exists)",
    3: "missing, damaged or mismatched data, or a missing extra",
    130: "interrupted",
}

# name -> line in `creditflow --help`; creditflow.train.commands.<name> is imported when called
COMMANDS = {
    "demo": "show which turn of a failed episode each scheme blames",
    "score": "score your own log: choose a scheme, write an advantage per turn and an HTML page",
    "envs": "list environments, their task lists (panels) and sizes",
    "rollout": "play groups of episodes and write them as a trajectory log",
    "annotate": "add annotations (values from models, LLM judges, oracles, continuations) to a trajectory log",
    "schemes": "list the credit schemes, or show one's card: needs, properties, result, limitations",
    "credit": "compute the credit of a trajectory log with a scheme, or explain a scheme",
    "train": "train a language-model policy with any credit scheme",
    "eval": "evaluate a language model: success with confidence intervals",
    "bench": "compare credit schemes and write tables and report.html",
    "audit": "report which credit schemes suit a trajectory log, and whether their credit is right",
    "check-batch": "check the arrays of a training step, from any trainer: does the credit reach the loss?",
    "view": "write a trajectory log as one HTML page: rollouts, state graph, credit",
    "play": "play an environment yourself, in the terminal",
    "serve": "serve an environment or a search index over HTTP",
    "new": "create a template for your own credit scheme, environment or agent, with tests",
    "doctor": "show what is installed, what is missing and how to install it",
    "model": "create a model folder from a GGUF file or from a checkpoint of a training run",
    "data": "check, import, build and label data",
}


def command_module(name: str) -> ModuleType:
    """The module of a command, imported now."""
    return import_module(f"creditflow.train.commands.{name.replace('-', '_')}")


def command_parser(name: str) -> CommandParser:
    """The parser of a command, whose module is imported now."""
    module = command_module(name)
    parser = CommandParser(prog=f"creditflow {name}", description=module.__doc__)
    module.add_arguments(parser)
    for action_parser in parser.leaves():
        add_load(action_parser)
    return parser


def _epilog() -> str:
    """What ``creditflow --help`` shows below the options: commands and exit codes."""
    lines = ["commands:", *(f"  {name:12}  {text}" for name, text in COMMANDS.items()), ""]
    lines += [
        "Run `creditflow COMMAND --help` for details. An error is one line. `creditflow --traceback COMMAND` shows more."
    ]
    return "\n".join([*lines, "", "exit codes:", *(f"  {code:3} {meaning}" for code, meaning in EXIT_CODES.items())])


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    at = next((i for i, argument in enumerate(arguments) if not argument.startswith("-")), len(arguments))
    return reported(
        lambda: _run(arguments[: at + 1], arguments[at + 1 :]),
        show_traceback="--traceback" in arguments[:at],
        again=f"creditflow --traceback {' '.join(arguments)}",
    )


def _run(arguments: Sequence[str], of_command: Sequence[str]) -> int:
    """Run what the arguments up to the command's name ask for, with the arguments after it."""
    parser = CommandParser(
        prog="creditflow", description="Credit assignment for language-model agents.", epilog=_epilog()
    )
    parser.add_argument("--traceback", action="store_true", help="show the traceback of an error")
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    parser.add_argument("command", nargs="?", metavar="COMMAND", help="one of the commands listed below")
    top = parser.parse_args(arguments)
    if top.version:
        from creditflow import __version__

        print(__version__)
        return 0
    if top.command is None:
        parser.print_help()
        return 0

    if top.command not in COMMANDS:
        raise unknown_name_error("command", top.command, COMMANDS)
    args = command_parser(top.command).parse_args(of_command)
    return run_module(command_module(top.command), args)
