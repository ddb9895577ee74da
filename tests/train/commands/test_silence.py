"""``creditflow credit`` says, with counts, what leaves turns without credit, and when nothing can be learned."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from creditflow.train.cli import main
from creditflow.wrappers.records.jsonl import write_jsonl
from creditflow.wrappers.records.trajectory import Trajectory, Turn


def episode(name: str, group: str, won: bool, states: str = "abc") -> Trajectory:
    """An episode through states, named by letters."""
    turns = tuple(
        Turn(before, f"to {after}", after, reward=float(won and t == len(states) - 2))
        for t, (before, after) in enumerate(pairwise(states))
    )
    return Trajectory(name, group, group, turns, won, float(won), "success" if won else "failed", states[-1])


def credit(folder: Path, scheme: str, *episodes: Trajectory) -> tuple[int, list[list[float]]]:
    """The exit code, and the advantages in the order of the log."""
    write_jsonl(folder / "log.jsonl", episodes)
    code = main(["credit", "--scheme", scheme, str(folder / "log.jsonl"), "--out", str(folder / "c.jsonl"), "--force"])
    return code, [json.loads(line)["advantages"] for line in (folder / "c.jsonl").read_text().splitlines()]


def test_a_log_that_teaches_is_scored_without_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _ = credit(tmp_path, "gigpo", episode("1", "g", True), episode("2", "g", False, "abd"))
    assert code == 0
    assert "warning" not in capsys.readouterr().err


def test_states_that_never_meet_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = [episode("1", "g", True), episode("2", "g", False, "xyz")]
    assert credit(tmp_path, "gigpo", *found)[0] == 0
    assert "warning: no advantage of 4 turns differs from its episode's" in capsys.readouterr().err
    assert credit(tmp_path, "grpo", *found)[0] == 0
    assert "warning" not in capsys.readouterr().err, "GRPO compares no states"


def test_groups_of_one_and_trajectories_without_turns_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = replace(episode("3", "g", False), turns=(), final_state_key="a")
    alone = episode("4", "slip", False)
    assert credit(tmp_path, "gigpo", episode("1", "g", True), episode("2", "g", False, "abd"), empty, alone)[0] == 0
    error = capsys.readouterr().err
    assert "warning: 1 of 4 trajectories have no turns" in error
    assert "warning: 1 of 2 groups have one trajectory, which nothing is compared with" in error


@pytest.mark.parametrize("scheme", ["grpo", "gigpo", "graphgpo", "rewardflow", "grouptd"])
def test_a_log_from_which_a_scheme_learns_nothing_is_named(
    scheme: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dead = [episode("1", "g", False), episode("2", "g", False)]
    alone = [episode("1", "g", True), episode("2", "h", False)]
    for episodes, groups in ((dead, 1), (alone, 2)):
        code, advantages = credit(tmp_path, scheme, *episodes)
        assert code == 0
        silent = not any(map(any, advantages))
        assert (
            f"all {groups} groups have advantages of 0, so this scheme learns nothing" in capsys.readouterr().err
        ) == silent
        if scheme in ("grpo", "gigpo"):
            assert silent
