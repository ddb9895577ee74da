"""What commands write depends neither on Python's hash seed nor on other commands that write to the same place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.processes.killed_command import tree
from helpers.shared_data import ROOT

PLAYED = ["--limit", "2", "--group-size", "3", "--agent", "noisy:0.4"]
COMMANDS = [
    *(["rollout", "--env", env, *PLAYED, "--out", f"{env}.jsonl"] for env in ("sokoban", "alfworld", "webshop", "wikisearch")),
    *(["credit", "--scheme", scheme, "sokoban.jsonl", "--out", f"{scheme}.jsonl"] for scheme in ("graphgpo", "grouptd", "rewardflow")),
    ["credit", "--scheme", "egrpo", "wikisearch.jsonl", "--out", "egrpo.jsonl"],
    ["annotate", "--with", "oracle", "--env", "sokoban", "sokoban.jsonl", "--out", "annotated.jsonl"],
    ["audit", "alfworld.jsonl", "--out", "audit.txt"],
    ["view", "wikisearch.jsonl", "--out", "view.html"],
    ["data", "build", "wiki", "--articles", "200", "--questions", "5", "--index", "--out", "wiki"],
]  # fmt: skip
CODE = """
import json, os, sys
from creditflow.train.cli import main
os.chdir(sys.argv[1])
for command in json.loads(sys.argv[2]):
    code = main(command)
    assert code == 0, (command, code)
"""
WRITERS = {
    "index": ["serve", "search", "--corpus", "passages.jsonl", "--index", "OUT", "--build-only"],
    "wiki": ["data", "build", "wiki", "--articles", "200", "--index", "--out", "OUT"],
}


def started(folder: Path, commands: list[list[str]], seed: str) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONSAFEPATH": "1", "PYTHONHASHSEED": seed}
    words = [sys.executable, "-c", CODE, str(folder), json.dumps(commands)]
    return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(child: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit code and standard error."""
    errors = child.communicate(timeout=300)[1]
    return child.returncode, errors


def test_every_command_writes_the_same_bytes_under_every_hash_seed(tmp_path: Path) -> None:
    folders = [tmp_path / seed for seed in ("0", "1")]
    for folder in folders:
        folder.mkdir()
    results = [ended(child) for child in [started(folder, COMMANDS, folder.name) for folder in folders]]
    assert [code for code, _ in results] == [0, 0], results
    trees = [tree(folder) for folder in folders]
    assert len(trees[0]) >= len(COMMANDS)
    assert trees[0] == trees[1]


@pytest.mark.parametrize("name", WRITERS)
def test_commands_that_build_the_same_folder_at_once_leave_one_whole_build(name: str, tmp_path: Path) -> None:
    lines = [json.dumps({"id": f"p{i}", "contents": f"title {i}\ntext {i}"}) + "\n" for i in range(500)]
    (tmp_path / "passages.jsonl").write_text("".join(lines), encoding="utf-8")

    def command(out: str) -> list[list[str]]:
        return [[out if word == "OUT" else word for word in WRITERS[name]]]

    assert ended(started(tmp_path, command("alone"), "0"))[0] == 0
    children = [started(tmp_path, command("shared"), "0") for _ in range(3)]
    results = [ended(child) for child in children]
    assert 0 in [code for code, _ in results], results
    assert "defect" not in "".join(errors for _, errors in results)
    assert tree(tmp_path / "shared") == tree(tmp_path / "alone")
    assert {path.name for path in tmp_path.iterdir()} == {"passages.jsonl", "alone", "shared"}
