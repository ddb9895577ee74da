"""Code on the command line: ``--load SPEC`` of every command, and specs where a scheme, an environment or an agent is named.

A spec is ``path/to/file.py:NAME`` or ``package.module:NAME``. It is loaded, which runs it, and replaced by the name of what it
defines. Only the command line is searched: a spec in a settings file needs ``--load`` beside it.
"""

from __future__ import annotations

import argparse
from typing import Final

from creditflow.envs.plugins.code import names_code
from creditflow.envs.plugins.installed import Kind

__all__ = ["add_load", "load_named"]

# arguments that name a plug-in, and settings of ``--set`` that do
ARGUMENTS: Final[dict[str, Kind]] = {
    "scheme": "scheme",
    "schemes": "scheme",
    "env": "environment",
    "agent": "agent",
    "metrics": "metric",
}
SETTINGS: Final[dict[str, Kind]] = {"credit.scheme": "scheme", "env.name": "environment"}
FILES: Final = "plugin_files"


def add_load(parser: argparse.ArgumentParser) -> None:
    """Define ``--load``."""
    parser.add_argument(
        "--load", action="append", default=[], metavar="SPEC",
        help="load a scheme, environment, agent or metric of yours, which runs its code: path/to/file.py:NAME or package.module:NAME (repeatable)",
    )  # fmt: skip


def load_named(args: argparse.Namespace) -> None:
    """Load the code that the arguments name, and put the names of what it defines in its place; its files become inputs.

    Raises:
        ConfigError: it cannot be loaded.
    """
    for spec in args.load:
        from creditflow.train.run.plugins import load_plugin

        load_plugin(spec)
    arguments: dict[str, Kind] = ARGUMENTS | getattr(args, "code_arguments", {})
    for argument, kind in arguments.items():
        value = getattr(args, argument, None)
        if isinstance(value, str) and ":" in value:
            parts = value.split(",") if argument in ("schemes", "metric") else [value]
            setattr(args, argument, ",".join(_name(kind, part) for part in parts))
    if isinstance(getattr(args, "set", None), list):
        args.set = [_setting(text) for text in args.set]
    from creditflow.envs.plugins.loaded import loaded

    setattr(args, FILES, [str(one.code.file) for one in loaded() if one.code.file is not None])
    args.input_names = (*getattr(args, "input_names", ()), FILES)


def _setting(text: str) -> str:
    key, equals, value = text.partition("=")
    return f"{key}={_name(SETTINGS[key], value)}" if equals and key in SETTINGS else text


def _name(kind: Kind, text: str) -> str:
    """The name of what a spec defines; any other text as it is."""
    if not names_code(text) or (kind == "agent" and _is_agent(text)):
        return text
    from creditflow.train.run.plugins import load_plugin_of

    return load_plugin_of(kind, text)


def _is_agent(text: str) -> bool:
    """Whether a text with colons is an agent's name with its argument, such as ``hf:PATH``."""
    from creditflow.agents.registry import AGENTS, PROMPTED

    return text.partition(":")[0] in {*AGENTS, *PROMPTED}
