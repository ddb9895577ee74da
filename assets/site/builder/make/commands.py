"""The page of the commands: what each prints with ``--help``."""

from __future__ import annotations

import argparse
from functools import partial

from builder.markdown import table
from creditflow.train.cli import COMMANDS, EXIT_CODES, command_parser

__all__ = ["pages"]

HEAD = """# Commands

This page shows what every command prints with `--help`. An error is one line. `creditflow --traceback COMMAND` shows the whole traceback.
"""
WIDTH = 100  # characters of a line, on any terminal


def pages() -> dict[str, tuple[str, str]]:
    """One page with every command, and the exit codes."""
    rows = [["command", "what it does"]]
    rows += [[f"[`{name}`](#creditflow-{name})", text] for name, text in COMMANDS.items()]
    codes = [["exit code", "meaning"], *([str(code), text] for code, text in EXIT_CODES.items())]
    blocks = [HEAD, table(rows), table(codes)]
    for name in COMMANDS:
        parser = command_parser(name)
        blocks.append(f"## {parser.prog}\n\n{help_of(parser)}")
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                children = dict.fromkeys(action.choices.values())
                blocks += [f"### {child.prog}\n\n{help_of(child)}" for child in children]
    return {"reference/commands": ("", "\n".join(blocks))}


def help_of(parser: argparse.ArgumentParser) -> str:
    """The help of a parser as a block."""
    parser.formatter_class = partial(argparse.RawDescriptionHelpFormatter, width=WIDTH)
    return f"```text\n{parser.format_help()}```\n"
