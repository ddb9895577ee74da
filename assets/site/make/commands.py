"""The reference of commands, from their own parsers."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from creditflow.assets.site.markdown import prose, table
from creditflow.train.cli import COMMANDS, EXIT_CODES, command_parser

__all__ = ["pages"]

EXAMPLE = re.compile(r"^ *(creditflow|python -m) ")


def pages() -> dict[str, tuple[str, str]]:
    """One page with every command, and the exit codes."""
    rows = [
        ["command", "what it does"],
        *([f"[`{name}`](#creditflow-{name})", text] for name, text in COMMANDS.items()),
    ]
    codes = [["exit code", "meaning"], *([str(code), text] for code, text in EXIT_CODES.items())]
    head = (
        "# Commands\n\nThis page describes every command with its arguments, as `creditflow COMMAND --help` prints them. An error is one line. "
        "`creditflow --traceback COMMAND` shows the whole traceback.\n"
    )
    sections = [section(parser, level) for name in COMMANDS for parser, level in parsers(name)]
    return {"reference/commands": ("", "\n".join([head, table(rows), table(codes), *sections]))}


def parsers(name: str) -> Iterator[tuple[argparse.ArgumentParser, int]]:
    """The parser of a command and those of its actions, each with the level of its heading."""
    parser = command_parser(name)
    yield parser, 2
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in dict.fromkeys(action.choices.values()):
                yield child, 3


def section(parser: argparse.ArgumentParser, level: int) -> str:
    """Description, usage and arguments of a parser."""
    usage = parser.format_usage().removeprefix("usage: ").rstrip()
    rows = [["argument", "meaning"], *arguments(parser)]
    blocks = [f"{'#' * level} {parser.prog}", description(parser.description or ""), f"```text\n{usage}\n```"]
    return "\n\n".join([*blocks, table(rows) if len(rows) > 1 else ""])


def description(text: str) -> str:
    """Prose as paragraphs; lines that are commands as a block."""
    blocks: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        lines = paragraph.splitlines()
        if all(EXAMPLE.match(line) or line.startswith("    ") for line in lines):
            blocks.append("```text\n" + "\n".join(line.strip() for line in lines) + "\n```")
        else:
            blocks.append(prose(paragraph))
    return "\n\n".join(blocks)


def arguments(parser: argparse.ArgumentParser) -> list[list[str]]:
    """By argument its spelling and its help, with defaults filled in."""
    rows = []
    formatter = argparse.HelpFormatter(parser.prog)
    for action in parser._actions:
        if action.help == argparse.SUPPRESS or isinstance(action, argparse._HelpAction):
            continue
        if isinstance(action, argparse._SubParsersAction):
            rows.append([", ".join(f"`{name}`" for name in action.choices), prose(action.help or "")])
            continue
        value = formatter._format_args(action, formatter._get_default_metavar_for_optional(action))
        names = [f"{name} {value}".strip() for name in action.option_strings[-1:]] or [value]
        names = [*action.option_strings[:-1], *names]
        rows.append([f"`{', '.join(names)}`", prose(formatter._expand_help(action)) if action.help else ""])
    return rows
