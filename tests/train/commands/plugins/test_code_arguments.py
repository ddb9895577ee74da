"""Code on the command line: one rule for every option of every command that names a scheme, environment or agent."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.command_parsers import PARSERS
from helpers.plugins import AGENT, ENVIRONMENT, SCHEME

from creditflow.envs.plugins import Kind
from creditflow.train.arguments.programs import CodeArgument, load_named
from creditflow.train.cli import main

pytestmark = pytest.mark.usefixtures("forgotten")

FILES = {"mine.py": SCHEME, "ladder.py": ENVIRONMENT, "nth.py": AGENT}
SPECS: dict[Kind, tuple[str, str]] = {  # and the name that takes its place
    "scheme": ("mine.py:Mine", "mine"), "environment": ("ladder.py:Ladder", "Ladder"),
    "agent": ("nth.py:Nth:1", "nth:1"),
}  # fmt: skip
# words of options that name a scheme, an environment or an agent
WORDS = {"scheme", "schemes", "env", "envs", "environment", "agent"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files of a user, in the working directory."""
    for name, source in FILES.items():
        (tmp_path / name).write_text(source, "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def table() -> Iterator[tuple[str, CodeArgument]]:
    for command, parser in PARSERS.items():
        for argument in parser.get_default("code_names") or ():
            yield command, argument


TABLE = list(table())


def namespace(command: str, **values: object) -> argparse.Namespace:
    """What a command's parser makes of these values, whatever else it requires."""
    parser = PARSERS[command]
    defaults = {action.dest: action.default for action in parser._actions if action.dest != "help"}
    return argparse.Namespace(**{**defaults, **parser._defaults, "load": [], "set": None, **values})


@pytest.mark.parametrize("command", PARSERS)
def test_every_option_that_names_a_kind_of_plug_in_takes_its_code(command: str) -> None:
    taken = {argument.name for argument in PARSERS[command].get_default("code_names") or ()}
    named = {action.dest for action in PARSERS[command]._actions if action.dest in WORDS}
    assert named <= taken


def test_the_table_has_the_commands_that_take_code() -> None:
    assert {command for command, _ in TABLE} >= {
        "rollout", "eval", "play", "serve env", "credit", "view", "bench", "schemes", "annotate", "data build verl",
    }  # fmt: skip


@pytest.mark.parametrize(("command", "argument"), TABLE)
def test_code_is_loaded_and_replaced_by_its_name(command: str, argument: CodeArgument) -> None:
    spec, name = SPECS[argument.kind]
    args = namespace(command, **{argument.name: spec})
    load_named(args)
    assert getattr(args, argument.name) == name
    assert spec.split(":")[0] in args.plugin_files
    if argument.listed:
        args = namespace(command, **{argument.name: f"{spec},{spec}"})
        load_named(args)
        assert getattr(args, argument.name) == f"{name},{name}"


@pytest.mark.parametrize(("command", "argument"), TABLE)
def test_a_file_alone_is_answered_with_the_form_that_works(command: str, argument: CodeArgument) -> None:
    from creditflow.envs.errors import ConfigError

    file, name = SPECS[argument.kind][0].split(":")[:2]
    with pytest.raises(ConfigError, match=f"^{file} is a file; name what you mean in it: {file}:{name}$"):
        load_named(namespace(command, **{argument.name: file}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("class _Hidden: pass", "defines no class and no function"),
        ("def (", "cannot be read: invalid syntax"),
        ("class A: pass\ndef b(): pass", "name what you mean in it: some.py:A or some.py:b"),
    ],
)
def test_a_file_alone_is_read_and_not_run(text: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("some.py").write_text(f"{text}\nraise SystemExit('it ran')\n", "utf-8")
    for arguments in (["audit", "--load", "some.py", "x"], ["bench", "--envs", "some.py", "--out", "runs"]):
        assert main(arguments) == 2
        assert message in capsys.readouterr().err
    Path("some.py").unlink()
    assert main(["rollout", "--env", "some.py", "--out", "x"]) == 2
    assert "some.py cannot be read: No such file" in capsys.readouterr().err
