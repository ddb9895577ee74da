"""WikiSearch rollouts: the papers' analyses as programs, named rewards, schemes of search tasks."""

from __future__ import annotations

import json

import pytest

from creditflow.train.arguments.programs import run_program
from creditflow.train.cli import main
from creditflow.wrappers.records.jsonl import read_groups

WORLD = ["--env-set", 'world={"articles":400,"questions":6,"seed":3}']


@pytest.fixture(scope="module")
def search_log(tmp_path_factory):
    path = tmp_path_factory.mktemp("logs") / "search.jsonl"
    command = ["rollout", "--env", "wikisearch", *WORLD, "--agent", "noisy:0.4", "--group-size", "6", "--oracle"]
    assert main([*command, "--out", str(path)]) == 0
    return path


@pytest.mark.parametrize(
    ("name", "shown"), [("gdcr", "Best distance"), ("egrpo", "Match rate"), ("rewardflow", "Unique among visited")]
)
def test_an_analysis_is_a_program_that_prints_a_table_or_json(name, shown, search_log, capsys):
    if name == "egrpo":
        pytest.importorskip("scipy")
    assert run_program("evidence.papers", [name, str(search_log)]) == 0
    assert shown in capsys.readouterr().out
    assert run_program("evidence.papers", [name, str(search_log), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["groups"] == 6
    if name == "gdcr":  # a noisy expert answers correctly only once it has seen all the evidence
        assert found["by_step"][0]["correct"]["best"] < found["by_step"][0]["incorrect"]["best"]


def test_what_a_log_lacks_is_missing_data(tmp_path, capsys):
    log = tmp_path / "sokoban.jsonl"
    assert main(["rollout", "--agent", "noisy:0.4", "--limit", "1", "--group-size", "2", "--out", str(log)]) == 0
    assert run_program("evidence.papers", ["gdcr", str(log)]) == 3
    assert "needs an entity graph with an answer node" in capsys.readouterr().err


def test_rollouts_are_graded_and_scored_by_named_rewards(tmp_path, capsys):
    log, out = tmp_path / "log.jsonl", tmp_path / "credit.jsonl"
    command = [
        "rollout",
        "--env",
        "wikisearch",
        *WORLD,
        "--env-set",
        "dialect=search_r1",
        "--limit",
        "2",
        "--group-size",
        "3",
    ]
    assert main([*command, "--agent", "noisy:0.3", "--reward", "pica", "--reward", "egrpo", "--out", str(log)]) == 0
    assert "reward.pica" in capsys.readouterr().err
    members = [member for group in read_groups(log) for member in group.trajectories]
    assert all(
        member.values["reward.pica"] == (1.0 if member.success else member.values["reward.pica"]) for member in members
    )
    assert not any(member.values["reward.egrpo"] for member in members)  # another form
    assert main(["credit", "--scheme", "rloo", "--reward", "pica", str(log), "--out", str(out)]) == 0
    assert main(["credit", "--scheme", "rloo", "--reward", "picca", str(log)]) == 2
    assert "did you mean 'pica'" in capsys.readouterr().err


def test_wikisearch_logs_can_be_scored_by_stepsearch(search_log, tmp_path, capsys):
    assert main(["credit", "--scheme", "stepsearch", str(search_log), "--out", str(tmp_path / "c.jsonl")]) == 0
    assert "step credit on 0%" not in capsys.readouterr().err
