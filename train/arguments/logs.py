"""Arguments of commands that read a trajectory log, and how the files that they name are opened."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Collection
from contextlib import AbstractContextManager
from typing import IO

from creditflow.envs.files.atomic import atomic_writer
from creditflow.train.arguments.outputs import add_input
from creditflow.wrappers.records import jsonl
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import Log

__all__ = ["add_log_argument", "log_of", "open_output", "read_log"]


def add_log_argument(parser: argparse.ArgumentParser, *, optional: bool = False, grouping: bool = True) -> None:
    """Define the positional argument IN.jsonl, and with ``grouping`` the option ``--group-by``."""
    add_input(
        parser,
        "input",
        nargs="?" if optional else None,
        metavar="IN.jsonl",
        help="trajectory log; - reads standard input",
    )
    if grouping:
        parser.add_argument(
            "--group-by",
            choices=["group", "task"],
            default="group",
            help="what forms a group: the log's groups, or all trajectories of a task (default group)",
        )


def read_log(args: argparse.Namespace, fields: Collection[str] | None = None) -> list[Group]:
    """Read the groups of the log that the arguments name; as ``log_of``."""
    return list(log_of(args, fields).groups)


def log_of(args: argparse.Namespace, fields: Collection[str] | None = None) -> Log:
    """Read the log that the arguments name.

    Args:
        args: the arguments of ``add_log_argument``.
        fields: text fields to keep; None for all.
    """
    return jsonl.read_log(
        sys.stdin if args.input == "-" else args.input, by=getattr(args, "group_by", "group"), fields=fields
    )


def print_text(text: str, path: str) -> None:
    """Print a text to standard output for "-", else write it to a file in UTF-8."""
    with open_output(path, encoding="utf-8") as stream:
        print(text, file=stream)


def open_output(path: str, *, encoding: str = "ascii") -> AbstractContextManager[IO[str]]:
    """Open an output file, or standard output for "-"."""
    return contextlib.nullcontext(sys.stdout) if path == "-" else atomic_writer(path, encoding=encoding)
