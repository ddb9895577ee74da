"""What scripts rely on: JSON from every command that prints a table and exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from creditflow.train.cli import COMMANDS, EXIT_CODES, main
from creditflow.train.commands import envs

# every command that prints a table, with arguments under which it does
TABLES = {
    "annotate": ["annotate", "--list"],
    "audit": ["audit", "LOG"],
    "bench": ["bench", "--show", "RESULTS"],
    "envs": ["envs"],
    "schemes": ["schemes"],
    "card": ["schemes", "grpo"],
}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small log."""
    path = str(tmp_path_factory.mktemp("made") / "log.jsonl")
    played = ["--panel", "small-v1:valid", "--limit", "2", "--group-size", "4", "--agent", "noisy:0.5"]
    assert main(["rollout", *played, "--out", path]) == 0
    return path


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a small run of the benchmark."""
    pytest.importorskip("jinja2", reason="the page needs the 'bench' extra")
    folder: Path = tmp_path_factory.mktemp("run")
    run = ["--preset", "smoke", "--envs", "shared", "--schemes", "grpo", "--workers", "1", "--out", str(folder)]
    assert main(["bench", *run]) == 0
    return folder / "results.json"


@pytest.mark.parametrize("name", TABLES)
def test_every_table_is_printed_as_json_on_request_and_nothing_else_is(name, log, request, capsys):
    run = str(request.getfixturevalue("results")) if name == "bench" else ""
    arguments = [word.replace("LOG", log).replace("RESULTS", run) for word in TABLES[name]]
    capsys.readouterr()
    assert main(arguments) == 0
    text = capsys.readouterr().out
    with pytest.raises(ValueError, match=r"Expecting|Extra"):
        json.loads(text)
    assert main([*arguments, "--json"]) == 0

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    assert json.loads(capsys.readouterr().out, parse_constant=refuse)


def test_the_document_of_a_run_is_what_it_stored(results, capsys):
    capsys.readouterr()
    assert main(["bench", "--show", str(results), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(results.read_text())


def raising(error: type[BaseException]) -> Callable[[object], int]:
    def run(_args: object) -> int:
        raise error

    return run


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["envs"], 0), (["--version"], 0), ([], 0),
        (["credit", "--scheme", "grpp", "LOG"], 2), (["nothing"], 2), (["audit", "LOG", "--out", "LOG", "--force"], 2),
        (["audit", "missing.jsonl"], 3), (["audit", "damaged.jsonl"], 3),
    ],
)  # fmt: skip
def test_exit_codes_mean_what_the_help_says(arguments, code, log, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    arguments = [word.replace("LOG", log) for word in arguments]
    (tmp_path / "damaged.jsonl").write_text("{")
    assert main(arguments) == code
    assert code in EXIT_CODES


def test_wrong_options_defects_and_interruptions_have_their_codes(monkeypatch, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["audit", "--no-such-option"])
    assert stopped.value.code == 2
    for error, code in ((RuntimeError, 1), (KeyboardInterrupt, 130)):
        monkeypatch.setattr(envs, "run", raising(error))
        assert main(["envs"]) == code


def test_the_help_lists_every_command_with_its_purpose_and_every_exit_code(capsys):
    assert main([]) == 0
    without = capsys.readouterr().out
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == without
    lines = without.splitlines()
    assert max(map(len, lines)) <= 120
    for name, text in COMMANDS.items():
        assert f"  {name:12}  {text}" in lines
    for code, meaning in EXIT_CODES.items():
        assert f"{code} {meaning}" in without
