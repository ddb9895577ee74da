"""The argument parsers of every command, program and study that follows their rules of output, and one way to run each."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from creditflow.train import cli
from creditflow.train.arguments.programs import run_program
from creditflow.train.cli import COMMANDS, command_module

__all__ = ["PARSERS", "STUDIES", "main", "outputs"]

STUDIES = ("gpu.run",)


def parsers() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every command, every action of a command that has several, every study."""
    for name in STUDIES:
        parser = argparse.ArgumentParser()
        import_module(name).add_arguments(parser)
        yield name, parser
    for name in COMMANDS:
        parser = argparse.ArgumentParser()
        command_module(name).add_arguments(parser)
        yield from with_actions(name, parser)


def with_actions(name: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not below:
        yield name, parser
    for action in below:
        for word, one in action.choices.items():
            yield from with_actions(f"{name} {word}", one)


PARSERS = dict(parsers())


def main(arguments: list[str]) -> int:
    """Run a command, program or study."""
    return run_program(arguments[0], arguments[1:]) if "." in arguments[0] else cli.main(arguments)


def outputs(parser: argparse.ArgumentParser) -> dict[str, Any]:
    return {flag: output for _, flag, output in parser.get_default("output_names") or ()}
