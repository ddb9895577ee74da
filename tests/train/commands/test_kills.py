"""Every command that writes, killed or interrupted at many moments: nothing torn is ever found under the output's name, and the
command can be run again at once, to the bytes of an undisturbed run, without leftovers. An interrupt (Ctrl-C, which every process
of a terminal gets) leaves exit code 130, one word and no process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.processes.killing import Killer, require_interrupted, require_killed, running_killer

from creditflow.train.cli import main

LIMIT = ["--panel", "standard-v1:train", "--limit", "4", "--group-size", "2"]
# a command, and how it is begun again once it was killed: resumed, or begun anew
WRITERS: dict[str, tuple[list[str], list[str]]] = {
    "rollout": (["rollout", "--agent", "noisy:0.3", *LIMIT, "--out", "{}/log.jsonl"], ["--resume"]),
    "rollout-gz": (["rollout", "--agent", "noisy:0.3", *LIMIT, "--out", "{}/a/log.jsonl.gz"], ["--resume"]),
    "rollout-workers": (
        ["rollout", "--agent", "noisy:0.3", *LIMIT, "--workers", "2", "--out", "{}/log.jsonl"],
        ["--resume"],
    ),
    "annotate": (
        ["annotate", "--with", "oracle", "--env", "sokoban", "--batch", "1", "LOG", "--out", "{}/x.jsonl"],
        ["--resume"],
    ),
    "credit": (["credit", "--scheme", "graphgpo", "LOG", "--out", "{}/credit.jsonl"], ["--force"]),
    "audit": (["audit", "LOG", "--out", "{}/audit.txt"], ["--force"]),
    "replay": (["audit", "LOG", "--replay", "2", "--out", "{}/x.jsonl"], ["--resume"]),
    "view": (["view", "LOG", "--out", "{}/view.html"], ["--force"]),
    "wiki": (["data", "build", "wiki", "--articles", "200", "--questions", "10", "--out", "{}/wiki"], ["--force"]),
    "wiki-index": (["data", "build", "wiki", "--articles", "200", "--index", "--out", "{}/wiki"], ["--force"]),
    "index": (["serve", "search", "--corpus", "PASSAGES", "--index", "{}/idx", "--build-only"], ["--force"]),
    "import": (["data", "import", "messages", "MESSAGES", "--out", "{}/log.jsonl"], ["--force"]),
    "new-env": (["new", "env", "maze", "--out", "{}/maze"], ["--force"]),
}
SLOW = {"rollout-workers"}  # it starts processes
NAMES = [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in WRITERS]
FOLDERS = {"wiki", "wiki-index", "index"}  # all of it or nothing


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("inputs")
    log, passages = folder / "log.jsonl", folder / "passages.jsonl"
    assert main(["rollout", "--agent", "noisy:0.3", *LIMIT, "--out", str(log)]) == 0
    passages.write_text(
        "".join(json.dumps({"id": f"p{i}", "contents": f"title {i}\ntext {i}"}) + "\n" for i in range(50))
    )
    messages = folder / "messages.jsonl"
    talk = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "left"}]
    messages.write_text(
        "".join(json.dumps({"messages": talk, "reward": 1.0, "id": f"e{i}", "task_id": "t"}) + "\n" for i in range(40))
    )
    return {"LOG": str(log), "PASSAGES": str(passages), "MESSAGES": str(messages)}


@pytest.fixture(scope="module")
def killer() -> Iterator[Killer]:
    with running_killer() as killer:
        yield killer


@pytest.mark.parametrize("name", NAMES)
def test_a_killed_command_leaves_no_torn_file_and_can_be_run_again(
    name: str, tmp_path: Path, inputs: dict[str, str], killer: Killer
) -> None:
    first, again = WRITERS[name]
    words = [inputs.get(argument, argument) for argument in first]
    require_killed(killer, tmp_path, words, again, at_once=name in FOLDERS)


@pytest.mark.parametrize("name", NAMES)
def test_an_interrupted_command_ends_with_130_and_one_word_and_can_be_run_again(
    name: str, tmp_path: Path, inputs: dict[str, str], killer: Killer
) -> None:
    first, again = WRITERS[name]
    words = [inputs.get(argument, argument) for argument in first]
    require_interrupted(killer, tmp_path, words, again, at_once=name in FOLDERS)
