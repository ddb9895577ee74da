"""Every command that writes, killed or interrupted at many moments: nothing torn is ever found under the output's name, and the
command can be run again at once, to the bytes of an undisturbed run, without leftovers. An interrupt (Ctrl-C, which every process
of a terminal gets) leaves exit code 130, one word and no process."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.shared_data import ROOT
from helpers.worlds.film_corpus import write_films
from helpers.worlds.webshop_small import write_files

from creditflow.envs.webshop.catalogue.embedded import embedded_stock
from creditflow.train.cli import main

LIMIT = ["--panel", "standard-v1:train", "--limit", "4", "--group-size", "2"]
CREDIT_SET = ["data", "build", "credit-set", "--envs", "sokoban", "--turns", "16"]
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
    "merge": (["merge", "--by", "hash@0.9", "--text", "observation", "LOG", "--write", "{}/merged.jsonl"], ["--force"]),
    "merge-table": (["merge", "--by", "none", "--schemes", "gigpo", "LOG", "--out", "{}/t.txt"], ["--force"]),
    "audit": (["audit", "LOG", "--out", "{}/audit.txt"], ["--force"]),
    "view": (["view", "LOG", "--out", "{}/view.html"], ["--force"]),
    "analyse": (["analyse", "LOG", "--out", "{}/found.txt"], ["--force"]),
    "wiki": (["data", "build", "wiki", "--articles", "200", "--questions", "10", "--out", "{}/wiki"], ["--force"]),
    "wiki-index": (["data", "build", "wiki", "--articles", "200", "--index", "--out", "{}/wiki"], ["--force"]),
    "webshop": (["data", "import", "webshop", "SHOP", "--out", "{}/store"], ["--force"]),
    "index": (["serve-search", "--corpus", "PASSAGES", "--index", "{}/idx", "--build-only"], ["--force"]),
    "credit-set": (
        [*CREDIT_SET, "--workers", "1", "--out", "{}/s.jsonl.gz"],
        ["--resume"],
    ),
    "credit-set-workers": (
        [*CREDIT_SET, "--workers", "2", "--out", "{}/s.jsonl.gz"],
        ["--resume"],
    ),
    "synthesize": (
        ["data", "synthesize", "--corpus", "FILMS", "--limit", "3", "--out", "{}/q.jsonl.gz"],
        ["--resume"],
    ),
    "label": (["data", "label", "SEARCH", "--out", "{}/labels.jsonl"], ["--force"]),
}
SLOW = {"rollout-workers", "credit-set-workers"}  # they start processes
NAMES = [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in WRITERS]
FOLDERS = {"wiki", "wiki-index", "webshop", "index"}  # all of it or nothing


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("inputs")
    log, search, passages = folder / "log.jsonl", folder / "search.jsonl", folder / "passages.jsonl"
    assert main(["rollout", "--agent", "noisy:0.3", *LIMIT, "--out", str(log)]) == 0
    found = ["rollout", "--env", "wikisearch", "--agent", "noisy:0.2", "--limit", "2", "--group-size", "2"]
    assert main([*found, "--out", str(search)]) == 0
    passages.write_text(
        "".join(json.dumps({"id": f"p{i}", "contents": f"title {i}\ntext {i}"}) + "\n" for i in range(50))
    )
    shop = folder / "shop"
    shop.mkdir()
    write_files(shop, [embedded_stock().catalogue.store.product(row) for row in range(60)])
    films = write_films(folder / "films.jsonl")
    return {
        "LOG": str(log),
        "SEARCH": str(search),
        "PASSAGES": str(passages),
        "SHOP": str(shop),
        "FILMS": str(films),
    }


class Killer:
    """The process that all commands are forked from; it has imported everything once."""

    def __init__(self) -> None:
        script = Path(__file__).parents[2] / "helpers" / "processes" / "killed_command.py"
        environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONSAFEPATH": "1"}
        self.process = subprocess.Popen(
            [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def kill(self, folder: Path, sent: int, moments: int, first: list[str], again: list[str]) -> tuple[Any, list[Any]]:
        """What an undisturbed run leaves, and what runs leave that get a signal at so many moments."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        print(json.dumps([str(folder), sent, moments, first, [*first, *again]]), file=stdin, flush=True)
        assert select.select([stdout], [], [], 300.0)[0], "no answer within five minutes"
        whole, *rounds = json.loads(stdout.readline())
        assert whole["status"] == 0, whole["errors"]
        return whole, rounds


@pytest.fixture(scope="module")
def killer() -> Iterator[Killer]:
    found = Killer()
    yield found
    found.process.kill()
    found.process.communicate()


@pytest.mark.parametrize("name", NAMES)
def test_a_killed_command_leaves_no_torn_file_and_can_be_run_again(
    name: str, tmp_path: Path, inputs: dict[str, str], killer: Killer
) -> None:
    first, again = WRITERS[name]
    words = [inputs.get(argument, argument) for argument in first]
    whole, rounds = killer.kill(tmp_path, signal.SIGKILL, 6, words, again)
    assert whole["changes"] > 3
    assert sum(os.WIFSIGNALED(r["status"]) and os.WTERMSIG(r["status"]) == signal.SIGKILL for r in rounds) >= 3
    require_whole(name, whole, rounds)


@pytest.mark.parametrize("name", NAMES[: list(WRITERS).index("synthesize")])
def test_an_interrupted_command_ends_with_130_and_one_word_and_can_be_run_again(
    name: str, tmp_path: Path, inputs: dict[str, str], killer: Killer
) -> None:
    first, again = WRITERS[name]
    words = [inputs.get(argument, argument) for argument in first]
    whole, rounds = killer.kill(tmp_path, signal.SIGINT, 4, words, again)
    assert [os.waitstatus_to_exitcode(one["status"]) for one in rounds].count(130) >= 3
    for one in rounds:
        where = f"interrupted at {one['at']} ({one['delay']:.3f} s): {one['errors']}"
        code = os.waitstatus_to_exitcode(one["status"])
        assert code == 130 or (code in (0, -signal.SIGINT) and one["delay"] >= 0.0), where  # before or after its work
        assert code != 130 or one["errors"].endswith("\ninterrupted\n"), where
        assert "Traceback" not in one["errors"], where
        assert one["alone"], f"{where}: a process is left"
    require_whole(name, whole, rounds)


def require_whole(name: str, whole: Any, rounds: list[Any]) -> None:
    """Check that what the rounds left is part of the whole, and what they left after the second run the whole."""
    for one in rounds:
        where = f"stopped at {one['at']} ({one['delay']:.3f} s)"
        shown = {path: digest for path, digest in one["left"].items() if path in whole["whole"]}
        assert shown.items() <= whole["whole"].items(), f"{where}: {sorted(shown)}"
        if name in FOLDERS:
            assert shown in ({}, whole["whole"]), f"{where}: only {sorted(shown)}"
        assert one["again"] == 0, f"{where}: {one['left'].keys()}: {one['errors_again'][-2000:]}"
        assert one["after"] == whole["whole"], where
