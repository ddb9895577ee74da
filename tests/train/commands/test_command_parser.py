"""The error for a misspelt option suggests the nearest one, before anything that is missing because of it."""

from __future__ import annotations

import os
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest
from helpers.command_parsers import STUDIES
from hypothesis import given
from hypothesis import strategies as st

from creditflow.train.arguments.programs import CommandParser, run_program
from creditflow.train.cli import COMMANDS, command_module, main


def module_of(command: str) -> ModuleType:
    return command_module(command)


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as found:
        main(arguments)
    assert found.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--verison"], "unknown option '--verison'; did you mean '--version'?"),
        (["--tracebak", "envs"], "did you mean '--traceback'?"),
        (["rollout", "--agnet", "random"], "unknown option '--agnet'; did you mean '--agent'?"),  # --out is missing too
        (["rollout", "--agnet=random", "--out", "-"], "unknown option '--agnet'; did you mean '--agent'?"),
        (["rollout", "--group", "2", "--out", "-"], "did you mean '--group-size'?"),  # no abbreviations
        (["credit", "--shceme", "gigpo"], "did you mean '--scheme'?"),
        (["data", "import", "webshop", "x", "--strickt"], "did you mean '--strict'?"),
        (["data", "build", "wiki", "--article", "200"], "did you mean '--articles'?"),
        (["data", "--hepl"], "did you mean '--help'?"),
    ],
)
def test_the_nearest_option_is_suggested_first(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refused(arguments, capsys)


@pytest.mark.parametrize("option", ["--limit", "--samples"])
def test_eval_rejects_a_negative_number_of_tasks_or_samples(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["eval", "--agent", "hf:x", "--panel", "small-v1:valid", option, "-1"]
    assert "expected a whole number ≥ 0, got '-1'" in refused(arguments, capsys)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_suggests_the_nearest_option(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = CommandParser()
    module_of(command).add_arguments(parser)
    if command == "data":
        return  # its options belong to its actions, above
    for option in [name for name in parser._option_string_actions if len(name) > 5]:
        misspelt = option[:3] + option[4] + option[3] + option[5:]
        if misspelt not in parser._option_string_actions:
            assert "did you mean" in refused([command, misspelt], capsys)


@pytest.mark.parametrize("program", [*STUDIES, "evidence.papers"])
def test_every_program_suggests_the_nearest_option(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as found:
        run_program(program, ["--tracebakc"])
    assert found.value.code == 2
    assert "did you mean '--traceback'?" in capsys.readouterr().err


@given(
    value=st.one_of(
        st.integers(-(10**6), -1).map(str), st.just("-"), st.just("-0.5"), st.text(max_size=8).map("- ".__add__)
    )
)
def test_a_word_that_argparse_reads_as_a_value_is_not_an_option(value: str) -> None:
    parser: Any = CommandParser()
    parser.add_argument("--number")
    assert parser.parse_args(["--number", value]).number == value
    assert parser.parse_args([f"--number={value}"]).number == value


def test_behind_two_dashes_everything_is_a_value() -> None:
    parser: Any = CommandParser()
    parser.add_argument("file")
    assert parser.parse_args(["--", "--odd"]).file == "--odd"


def test_help_and_wrong_commands_import_no_more_than_the_package_itself() -> None:
    program = """
import contextlib, sys
import gymnasium  # which the package needs, and which imports what it likes, by release
others = set(sys.modules)
from creditflow.train.cli import main

for arguments in (["--help"], ["rolout"], ["--verison"]):
    with contextlib.suppress(SystemExit):
        main(arguments)
heavy = ("networkx", "http.client", "PIL", "tqdm", "importlib.metadata", "creditflow.wrappers", "creditflow.agents")
found = [name for name in heavy if name in sys.modules.keys() - others]
assert not found, found
assert "creditflow/Sokoban-v0" in gymnasium.registry
import creditflow
assert creditflow.__version__
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
