"""The reference pages made from the code: the Python interface, the commands, and the schemas.

The Python interface is what ``__all__`` of every public package names, from the docstrings. The commands are described by their
own parsers. The schemas of logs, of ``info`` and of training settings come from the dataclasses that read and write them.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Iterator
from typing import Any, Final

from builder.markdown import prose, table
from builder.repository import read
from creditflow.envs.info import AgentInfo
from creditflow.train.cli import COMMANDS, EXIT_CODES, command_parser
from creditflow.wrappers.records.stop_reasons import STOP_REASONS
from creditflow.wrappers.records.tokens import Tokens
from creditflow.wrappers.records.trajectory import Trajectory, Turn

__all__ = ["attributes_of", "pages"]

# page -> its title, and by package what the package is for
API: Final = {
    "api_environments": (
        "Python: environments and agents",
        {
            "creditflow": "the main entry points: `make`, `credit` and the errors",
            "creditflow.envs": "environments, their contract, tasks and lists of tasks, and the checker",
            "creditflow.envs.errors": "every exception class, in one tree",
            "creditflow.agents": "agents, which choose actions",
        },
    ),
    "api_wrappers": (
        "Python: records and credit",
        {
            "creditflow.wrappers": "Gymnasium wrappers; turns, trajectories, groups and their logs; graphs",
            "creditflow.wrappers.credit": "credit schemes: make, check, register",
        },
    ),
    "api_training": (
        "Python: playing, training, statistics",
        {
            "creditflow.train.rollout": "functions with which agents play groups",
            "creditflow.train.policy.samples": "training rows: one advantage per token",
            "creditflow.train.run.assemble": "functions that make environments, tasks and agents from settings",
            "creditflow.train.analyses.audit": "the audit of a log",
            "creditflow.train.statistics": "intervals and tests",
        },
    ),
}
EXAMPLE = re.compile(r"^ *(creditflow|python -m|pip) ")


def pages() -> dict[str, tuple[str, str]]:
    """The pages of the interface, of the commands and of the three schemas."""
    schemas = {
        "reference/log": ("", log_page()),
        "reference/info": ("", info_page()),
        "reference/settings": ("", settings_page()),
    }
    return {**api_pages(), **command_pages(), **schemas}


def attributes_of(kind: type) -> dict[str, str]:
    """By name what the section "Attributes" of a docstring says; names that share a line share its text.

    >>> from creditflow.wrappers.records.trajectory import Turn
    >>> attributes_of(Turn)["reward"]
    'reward of the environment; penalties are applied by the scheme.'
    """
    text = inspect.cleandoc(kind.__doc__ or "")
    section = re.search(r"^Attributes:\n(.*?)(?=^\S|\Z)", text, re.M | re.S)
    texts: dict[str, str] = {}
    names: list[str] = []
    for line in section[1].splitlines() if section else ():
        entry = re.match(r"    ((?:\w+, )*\w+): (.*)", line)
        if entry:
            names = entry[1].split(", ")
            texts |= dict.fromkeys(names, entry[2])
        elif line.strip():
            texts |= {name: f"{texts[name]} {line.strip()}" for name in names}
    return texts


def fields_table(kind: Any) -> str:
    """Name, type, default and meaning of every field of a dataclass."""
    meaning, hints = attributes_of(kind), typing.get_type_hints(kind)
    rows = [["field", "type", "default", "meaning"]]
    rows += [
        [f"`{field.name}`", f"`{type_name(hints[field.name])}`", default_of(field), prose(meaning.get(field.name, ""))]
        for field in dataclasses.fields(kind)
    ]
    return table(rows)


def default_of(field: dataclasses.Field[Any]) -> str:
    """The default as text."""
    if field.default is not dataclasses.MISSING:
        return f"`{field.default!r}`"
    if field.default_factory is dataclasses.MISSING:
        return "required"
    default = plain(field.default_factory())
    return "see its section" if dataclasses.is_dataclass(default) else f"`{default!r}`"


def plain(value: Any) -> Any:
    """A mapping proxy as a dict."""
    return dict(value) if isinstance(value, types.MappingProxyType) else value


def type_name(hint: Any) -> str:
    """A type as JSON's and YAML's users say it."""
    if hint is type(None):
        return "null"
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return " | ".join(map(repr, arguments))
    if origin in (typing.Union, types.UnionType):
        return " | ".join(map(type_name, arguments))
    if origin is not None:
        inner = ", ".join("…" if argument is Ellipsis else type_name(argument) for argument in arguments)
        return f"{getattr(origin, '__name__', origin)}[{inner}]"
    return str(getattr(hint, "__name__", hint))


def log_page() -> str:
    """Logs."""
    head = (
        "# Schema of logs\n\nThis page describes the format of trajectory logs. A log is a file of JSON Lines, plain or gzip, with one trajectory per line and "
        "`format_version` 1. Fields at their default may be missing. Unknown fields, NaN and repeated keys are errors, and the message gives the line. "
        "You can read logs from strangers, because nothing in a log is executed.\n\n"
        "[Your own log](/start/own_log.md#anything-else-write-json-lines) has the shortest example."
    )
    reasons = ", ".join(f"`{reason}`" for reason in STOP_REASONS)
    blocks = [
        head,
        f"## A line: a trajectory\n\n{fields_table(Trajectory)}\nThe first line of a group may also have `task`, the payload that some "
        f"schemes need (answers, entities, documents).\n\n`stop_reason` is one of {reasons}. Only `success` is a success.",
        f"## `turns`: a list of turns\n\n{fields_table(Turn)}",
        f"## `tokens`: what a language model sampled\n\n{fields_table(Tokens)}",
        "## The result of `creditflow credit`\n\nOne line per trajectory: `format_version`, `scheme`, `group_id`, `trajectory_id`, "
        "`outcome_advantage` (one number), and one entry per turn in `step_rewards`, `step_advantages`, `advantages` (their sum with the outcome) "
        "and `loss_mask`. `aggregation` specifies how the scheme averages token losses.",
    ]
    return "\n\n".join(blocks) + "\n"


def info_page() -> str:
    """The keys of ``info``, with the comments of their definition."""
    source = read("envs/info.py").partition("class AgentInfo")[2].partition("INFO_TYPES")[0]
    rows = [["key", "type", "meaning"]]
    for name, kind, comment in re.findall(r"^    (\w+): ([\w\[\], .]+?)(?:  # (.*))?$", source, re.M):
        rows.append([f"`{name}`", f"`{kind}`", prose(comment)])
    keys = set(AgentInfo.__annotations__)
    if {row[0].strip("`") for row in rows[1:]} != keys:
        raise ValueError("envs/info.py is no longer read as it is written")
    return (
        "# Schema of `info`\n\nEvery environment returns these keys from `reset` and `step`, and may add other flat keys. "
        "`creditflow.envs.check_agent_env` checks them.\n\n" + table(rows)
    )


def settings_page() -> str:
    """Settings of ``creditflow train``: a table per section."""
    from creditflow.train.settings.schema import TrainConfig

    blocks = [
        "# Settings of a training run\n\nThis page lists the settings that `creditflow train CONFIG.yaml` reads. A wrong name, type or value is an error, and the message "
        "gives the line. `--set update.optimizer.lr=1e-6` overrides one setting. `--dry-run` prints all settings and the GPU memory that the run needs.",
        f"## The file\n\n{fields_table(TrainConfig)}",
    ]
    done: set[type] = set()

    def sections(kind: type, prefix: str) -> None:
        for name, hint in typing.get_type_hints(kind).items():
            for part_type in (hint, *typing.get_args(hint)):
                if isinstance(part_type, type) and dataclasses.is_dataclass(part_type) and part_type not in done:
                    done.add(part_type)
                    summary = inspect.cleandoc(part_type.__doc__ or "").split("\n\n")[0]
                    blocks.append(f"## `{prefix}{name}`\n\n{prose(summary)}\n\n{fields_table(part_type)}")
                    sections(part_type, f"{prefix}{name}.")

    sections(TrainConfig, "")
    return "\n\n".join(blocks) + "\n"


def command_pages() -> dict[str, tuple[str, str]]:
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
    text = description(f"{parser.description or ''}\n\n{parser.epilog or ''}")
    blocks = [f"{'#' * level} {parser.prog}", text, f"```text\n{usage}\n```"]
    return "\n\n".join([*blocks, table(rows) if len(rows) > 1 else ""])


def description(text: str) -> str:
    """Prose as paragraphs; lines that are commands as a block."""
    blocks: list[str] = []
    for paragraph in filter(None, re.split(r"\n\s*\n", text.strip())):
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
            rows += [[f"`{choice.dest}`", prose(choice.help or "")] for choice in action._choices_actions]
            continue
        value = formatter._format_args(action, formatter._get_default_metavar_for_optional(action))
        names = [f"{name} {value}".strip() for name in action.option_strings[-1:]] or [value]
        names = [*action.option_strings[:-1], *names]
        rows.append([f"`{', '.join(names)}`", prose(formatter._expand_help(action)) if action.help else ""])
    return rows


def api_pages() -> dict[str, tuple[str, str]]:
    """The pages of the Python interface."""
    staged = {}
    for page, (title, packages) in API.items():
        blocks = [
            f"# {title}\n\nEverything exported in `__all__` is public. Everything else may change between releases."
        ]
        for name, text in packages.items():
            more = "   :no-index:\n" if name == "creditflow" else ""  # what it names is documented where it is defined
            module = f".. automodule:: {name}\n   :members:\n   :show-inheritance:\n{more}"
            blocks.append(f"## {name}\n\n{text[0].upper()}{text[1:]}.\n\n```{{eval-rst}}\n{module}```")
        staged[f"reference/{page}"] = ("", "\n\n".join(blocks) + "\n")
    return staged
