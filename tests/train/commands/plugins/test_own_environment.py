"""An environment of one's own goes all the way: panels, rollouts, the benchmark; what it lacks is said where it is needed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from creditflow.train.cli import main
from creditflow.wrappers.records.jsonl import read_groups

pytestmark = pytest.mark.usefixtures("forgotten")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The environment that ``creditflow new`` writes, in the working directory."""
    monkeypatch.chdir(tmp_path)
    assert main(["new", "env", "hall"]) == 0
    return tmp_path


def lengths(log: str) -> set[int]:
    return {json.loads(group.turns[0].state_key.split(":")[0]) for group in read_groups(log)}


def test_its_panel_splits_its_tasks() -> None:
    for panel in ("train", "test"):
        command = ["rollout", "--env", "hall/hall.py:Hall", "--panel", f"lengths:{panel}", "--group-size", "2"]
        assert main([*command, "--out", f"{panel}.jsonl"]) == 0
    assert lengths("train.jsonl") == {4, 5, 7, 8}
    assert lengths("test.jsonl") == {3, 6}


def test_the_benchmark_plays_it_on_workers(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("jinja2", reason="the page needs the 'bench' extra")
    command = ["bench", "--envs", "hall/hall.py:Hall", "--schemes", "grpo,gigpo", "--preset", "smoke", "--out", "run"]
    assert main([*command, "--workers", "2"]) == 0
    [suite] = json.loads(Path("run/results.json").read_text())["suites"]
    assert suite["name"] == "hall"
    assert "What won: hall: " in capsys.readouterr().out


def test_an_unknown_suite_is_named_with_those_that_were_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--load", "hall/hall.py:Hall", "--envs", "hal", "--preset", "smoke", "--out", "run"]) == 2
    assert "did you mean 'hall'" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["rollout", "--out", "x.jsonl", "--env"], ["play"]])
def test_an_environment_without_panels_says_where_they_are_named(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    text = Path("hall/hall.py").read_text().replace('panel: str = "", ', "").replace("if panel in", 'if "" in')
    Path("bare.py").write_text(text)
    assert main([*command, "bare.py:Hall", "--panel", "lengths:test"]) == 2
    assert "environment 'hall' has no panels, got 'lengths:test': leave out --panel" in capsys.readouterr().err
