"""A command that resumes or appends rejects what it did not write, and leaves every byte of it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from helpers.command_parsers import PARSERS, main, outputs

LIMIT = ["--panel", "small-v1:valid", "--limit", "1", "--group-size"]
# for every output of a command that resumes, or appends to a file: the command, and what is behind the output's name
# ("": the name itself) where it looks for what it wrote before
FILES: dict[tuple[str, str], tuple[list[str], list[str]]] = {
    ("annotate", "--out"): (["annotate", "--with", "oracle", "--env", "sokoban", "LOG", "--resume"], ["", ".partial"]),
    ("audit", "--out"): (["audit", "--replay", "2", "LOG", "--resume"], ["", ".partial"]),
    ("data label", "--cache"): (["data", "label", "SEARCH", "--judge", "http://127.0.0.1:9#m", "--out", "labels.jsonl"], [""]),
    ("rollout", "--out"): (["rollout", "--agent", "expert", *LIMIT, "2", "--resume"], ["", ".partial"]),
}  # fmt: skip
# for every folder in which a command resumes, the command (the folder of `train` is tested in tests/extras/train/run)
FOLDERS: dict[tuple[str, str], list[str]] = {
    ("bench", "--out"): ["bench", "--envs", "shared", "--schemes", "grpo"],
    ("gpu.run", "--out"): ["gpu.run", "--dry-run"],
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("inputs")
    log, search = str(folder / "log.jsonl"), str(folder / "search.jsonl")
    assert main(["rollout", "--agent", "random", *LIMIT, "3", "--out", log]) == 0
    assert main(["rollout", "--env", "wikisearch", "--agent", "expert", *LIMIT[2:], "2", "--out", search]) == 0
    return {"LOG": log, "SEARCH": search}


def foreign_contents(log: bytes) -> dict[str, bytes]:
    """Contents of files that no command wrote, or another or newer one; most end without a newline."""
    first, _, rest = log.partition(b"\n")
    newer = json.dumps(json.loads(first) | {"format_version": 99}, separators=(",", ":")).encode()
    return {
        "one line": b"My thesis, on one line",
        "lines": b"My thesis\non two lines",
        "JSON": b'{"key": "value"}',
        "bytes": b"\xff\xfe\x00",
        "gzip": gzip.compress(b"My thesis\n"),
        "a log of other settings": log,
        "its first episode": first + b"\n",
        "its first episode, torn": first + b"\n" + rest[:20],
        "a newer log": newer + b'\n{"format_v',
        "a newer log, torn": newer,
    }


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_every_output_that_is_resumed_or_appended_to_is_tested_here() -> None:
    found = {
        (name, flag): output
        for name, parser in PARSERS.items()
        for flag, output in outputs(parser).items()
        if output.appended or "--resume" in parser._option_string_actions
    }
    of_models = {("eval", "--out")}  # needs torch, and grows by the same code as rollout's
    assert {key for key, output in found.items() if output.kind == "file"} == FILES.keys() | of_models
    assert {key for key, output in found.items() if output.kind == "folder"} == FOLDERS.keys()


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz"])
@pytest.mark.parametrize(("command", "flag"), list(FILES))
def test_a_foreign_file_is_rejected_and_keeps_every_byte(
    command: str,
    flag: str,
    name: str,
    inputs: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    if command == "audit":
        pytest.importorskip("scipy", reason="the report of a replay needs the 'bench' extra")
    given, places = FILES[command, flag]
    given = [inputs.get(argument, argument) for argument in given]
    for place in places:
        path = tmp_path / f"{name}{place}"
        for what, content in foreign_contents(Path(inputs["LOG"]).read_bytes()).items():
            path.write_bytes(content)
            assert main([*given, flag, name]) == 3, f"{place}, {what}"
            message = capsys.readouterr().err
            assert str(path.name) in message, f"{place}, {what}: {message}"
            assert contents(tmp_path) == {path.name: content}, f"{place}, {what}"
        path.unlink()


@pytest.mark.parametrize(("command", "flag"), list(FOLDERS))
def test_a_foreign_folder_is_rejected_and_keeps_every_byte(
    command: str, flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = outputs(PARSERS[command])[flag].first
    names = {"mine.txt", "results.json", "report.html", "run.json", "gpu.json", "sizes.json"} - {first}
    for name in sorted(names):
        (tmp_path / name).write_text("{}")
    assert main([*FOLDERS[command, flag], flag, str(tmp_path), "--resume"]) == 3
    assert f"has no {first}, so it contains no run" in capsys.readouterr().err
    assert contents(tmp_path) == dict.fromkeys(names, b"{}")


@pytest.mark.parametrize("content", ["My notes", "[]", "{}", '{"versions": {"results": 999}}'])
def test_a_foreign_run_file_is_rejected_and_the_folder_keeps_every_byte(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("jinja2", reason="bench needs the 'bench' extra")
    for name in ("run.json", "results.json", "rollouts-webshop.jsonl.gz"):
        (tmp_path / name).write_text(content)
    before = contents(tmp_path)
    assert main([*FOLDERS["bench", "--out"], "--out", str(tmp_path), "--resume"]) == 3
    assert str(tmp_path) in capsys.readouterr().err
    assert contents(tmp_path) == before
