"""Code on the command line: ``--load SPEC`` of every command, and specs where a scheme, an environment or an agent is named.

A spec is ``path/to/file.py:NAME`` or ``package.module:NAME``. It is loaded, which runs it, and replaced by the name of what it
defines. A command declares which of its arguments take one with ``add_code``; of ``--set`` those in ``SETTINGS`` do. Only the
command line is searched: a spec in a settings file needs ``--load`` beside it.
"""

from __future__ import annotations

import argparse
from typing import Any, Final, NamedTuple

from creditflow.envs.plugins.code import names_code
from creditflow.envs.plugins.registry import Kind

__all__ = ["add_code", "add_load", "code_arguments", "load_named"]

SETTINGS: Final[dict[str, Kind]] = {"credit.scheme": "scheme", "env.name": "environment"}
FILES: Final = "plugin_files"


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


def code_arguments(parser: argparse.ArgumentParser) -> tuple[CodeArgument, ...]:
    """The arguments that were defined with ``add_code``."""
    return tuple(parser.get_default("code_names") or ())


def add_load(parser: argparse.ArgumentParser) -> None:
    """Define ``--load``."""
    parser.add_argument(
        "--load", action="append", default=[], metavar="SPEC",
        help="load your own scheme, environment, agent or metric (this runs its code): path/to/file.py:NAME or package.module:NAME (repeatable)",
    )  # fmt: skip


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
    from creditflow.envs.plugins.registry import loaded

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
