"""Forks: an agent continues from before and after every turn; equal seeds give equal values."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

from creditflow.envs.errors import ConfigError
from creditflow.train.annotate import make_annotator
from creditflow.train.cli import main
from creditflow.wrappers.trajectory import Group, read_groups

PLACE = ["--env", "sokoban", "--panel", "small-v1:valid", "--env-set", "max_steps=14"]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    command = ["rollout", "--agent", "noisy:0.5", *PLACE, "--limit", "2", "--group-size", "2", "--out", str(path)]
    assert main(command) == 0
    return path


def forked(log: Path, out: str, *more: str) -> list[Group]:
    command = ["annotate", "--with", "forks:4", *PLACE, "--set", "agent=noisy:0.8", *more]
    assert main([*command, str(log), "--out", str(log.with_name(out))]) == 0
    return read_groups(log.with_name(out))


def test_every_turn_has_the_mean_score_of_its_continuations(log: Path) -> None:
    for group in forked(log, "a.jsonl"):
        for trajectory in group.trajectories:
            turns = trajectory.turns
            assert all(0.0 <= turn.values["fork.value"] <= 1.0 for turn in turns)
            assert all(turn.values["fork.q"] == turn.values["fork.value.next"] for turn in turns)
            for one, other in pairwise(turns):
                assert one.values["fork.q"] == other.values["fork.value"]
            assert turns[-1].values["fork.q"] == trajectory.score


def test_equal_seeds_give_equal_values_whatever_else_is_annotated(log: Path, tmp_path: Path) -> None:
    whole = forked(log, "a.jsonl")
    (tmp_path / "one.jsonl").write_text("".join(log.read_text().splitlines(keepends=True)[2:4]))
    [alone] = forked(tmp_path / "one.jsonl", "b.jsonl")
    assert alone.trajectories == whole[1].trajectories
    other = forked(log, "c.jsonl", "--set", "seed=1")
    assert [t.turns for t in other[0].trajectories] != [t.turns for t in whole[0].trajectories]


@pytest.mark.parametrize("annotator", ["forks:2", "oracle"])
@pytest.mark.parametrize("limit", [3, 40])
def test_another_step_limit_than_the_recorded_one_is_refused(
    annotator: str, limit: int, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = [*PLACE[:-1], f"max_steps={limit}"]
    command = ["annotate", "--with", annotator, *place, str(log), "--out", str(log.with_name("x.jsonl"))]
    assert main(command) == 2
    assert f"recorded with max_steps=14, and --env-set gives max_steps={limit}" in capsys.readouterr().err
    assert main([*command[:4], "webshop", str(log), "--out", str(log.with_name("x.jsonl"))]) == 2
    assert "the log was recorded in" in capsys.readouterr().err


@pytest.mark.parametrize("limit", [3, 40])
def test_another_limit_shows_in_the_replay_of_a_log_that_does_not_name_its_own(
    limit: int, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    log.write_text("".join(json.dumps({**row, "provenance": {}}) + "\n" for row in rows))
    command = [
        "annotate",
        "--with",
        "oracle",
        *PLACE[:-1],
        f"max_steps={limit}",
        str(log),
        "--out",
        str(log.with_name("x.jsonl")),
    ]
    assert main(command) == 3
    assert re.search("--env-set max_steps=", capsys.readouterr().err)


def test_the_arguments_that_a_log_was_recorded_with_need_not_be_repeated(log: Path) -> None:
    command = ["annotate", "--with", "forks:4", "--env", "sokoban", "--set", "agent=noisy:0.8"]
    assert main([*command, str(log), "--out", str(log.with_name("short.jsonl"))]) == 0
    values = [[t.turns for t in group.trajectories] for group in read_groups(log.with_name("short.jsonl"))]
    assert values == [[t.turns for t in group.trajectories] for group in forked(log, "a.jsonl")]


@pytest.mark.parametrize(("spec", "message"), [("forks:many", "number of continuations"), ("forks:4", "name the env")])
def test_forks_need_a_number_and_an_environment(spec: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_annotator(spec)
