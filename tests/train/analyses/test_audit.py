"""The statistics of the audit, on logs small enough to count by hand."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from creditflow.envs.errors import DataError
from creditflow.train.analyses.audit import audit
from creditflow.train.analyses.audit_advice import audit_text, recommendation_text, recommended, warnings
from creditflow.train.cli import main
from creditflow.wrappers.trajectory import Group, Trajectory, Turn, write_jsonl


def walk(name, path, reason="env_limit", actions=None, texts=None, group="g"):
    """A trajectory through one-letter states; the default action names its result."""
    actions, texts = actions or path[1:], texts or path
    success = reason == "success"
    turns = tuple(
        Turn(a, act, b, reward=float(success and t == len(path) - 2), text_key=text, effective=a != b)
        for t, (a, b, act, text) in enumerate(zip(path, path[1:], actions, texts, strict=False))
    )
    return Trajectory(
        name, group, "task", turns, success, float(success), reason, path[-1], final_text_key=texts[-1]
    )  # fmt: skip


def test_counts_of_a_log_by_hand():
    # a: 3 turns, two actions; b: 1 turn; c: 1 turn; the success goes a-b-goal
    found = audit([Group((walk("w0", "abg", "success"), walk("w1", "ac"), walk("w2", "ac"), walk("w3", "ca")))])
    assert (found.groups, found.trajectories, found.turns) == (1, 4, 5)
    assert found.success == 0.25
    assert found.state.states == 3
    assert found.state.singletons == pytest.approx(2 / 5)
    assert found.state.comparable == pytest.approx(3 / 5)
    assert found.state.connected == pytest.approx(1.0)  # c leads back to a
    assert found.state.conflicted == 0.0
    assert found.truncated == 0.75
    assert (found.length_succeeded, found.length_failed) == (2.0, 1.0)
    assert found.length_correlation == pytest.approx(1.0)


def test_kinds_of_dead_groups_are_counted():
    groups = [
        Group((walk("w0", "ab", group="g0"), walk("w1", "ac", group="g0"))),
        Group((walk("w0", "ag", "success", group="g1"), walk("w1", "ah", "success", group="g1"))),
        Group((walk("w0", "ag", "success", group="g2"), walk("w1", "ac", group="g2"))),
        Group((walk("w0", "ag", "success", group="g3"),)),
    ]
    found = audit(groups)
    assert (found.all_failed, found.all_succeeded, found.tied_groups, found.singleton_groups) == (0.25, 0.5, 0.75, 0.25)
    assert found.coverage["grpo"].dead_groups == 0.75
    assert any("equal scores" in line for line in warnings(found))
    assert any("a single rollout" in line for line in warnings(found))


def test_numbers_that_are_undefined_are_dashes():
    found = audit([Group((walk("w0", "ab"), walk("w1", "ac")))])
    assert np.isnan(found.length_correlation)
    assert "–" in audit_text(found)
    assert "nan" not in audit_text(found)


def test_conflicts_that_the_previous_state_explains():
    # in x the action "go" leads to y after a and to z after b
    members = [walk(f"a{i}", "axy", actions=["in", "go"]) for i in range(3)]
    members += [walk(f"b{i}", "bxz", actions=["in", "go"]) for i in range(3)]
    found = audit([Group(tuple(members))])
    assert found.state.conflicted == 0.5
    assert found.state.explained == 1.0
    scheme, reason = recommended(found)
    assert scheme == "grouptd"
    assert "previous state mostly determines" in reason


def test_random_conflicts_are_not_explained():
    members = [walk(f"y{i}", "axy", actions=["in", "go"]) for i in range(3)]
    members += [walk(f"z{i}", "axz", actions=["in", "go"]) for i in range(3)]
    found = audit([Group(tuple(members))])
    assert found.state.explained == 0.0
    scheme, reason = recommended(found)
    assert scheme == "grouptd"
    assert "does not determine which" in reason


def test_the_prefix_of_a_branch_counts_as_its_past():
    # in x the action "go" leads to y after a and to z after b; the branches begin in x
    roots = [walk("a", "axy", actions=["in", "go"]), walk("b", "bxz", actions=["in", "go"])]
    branches = [
        replace(walk(f"{root}{i}", f"x{end}", actions=["go"]), parent=root, fork_turn=1)
        for root, end in (("a", "y"), ("b", "z"))
        for i in range(2)
    ]
    found = audit([Group((*roots, *branches))])
    assert found.state.explained == 1.0
    assert found.length == 2.0


def test_a_branch_revisits_the_states_of_its_prefix():
    branch = replace(walk("branch", "cab"), parent="root", fork_turn=2)
    assert audit([Group((walk("root", "abc"), branch))]).revisits == pytest.approx(1 / 4)


def test_markov_keys_look_exact():
    found = audit([Group((walk("w0", "abg", "success"), walk("w1", "abab"), walk("w2", "abg", "success")))])
    scheme, reason = recommended(found)
    assert scheme == "grouptd"
    assert "look exact" in reason


def test_conflicts_in_keys_that_hardly_repeat_do_not_decide():
    # all begin in a, where the action "go" has three results; no other state is visited twice
    members = [walk(f"w{i}", f"a{i}{letter}z", actions=["go"] * 3) for i, letter in enumerate("xyw")]
    found = audit([Group(tuple(members))])
    assert found.state.conflicted == pytest.approx(1 / 3)
    scheme, reason = recommended(found)
    assert scheme == "blend"
    assert "visited only once" in reason


def test_groups_where_only_a_penalty_decides():
    plain = walk("w0", "abc")
    unparsed = replace(walk("w1", "abc"), turns=(replace(plain.turns[0], parsed=False), plain.turns[1]))
    found = audit([Group((plain, unparsed))])
    assert found.penalty_decides == 1.0
    assert found.unparsed == 0.25
    assert any("penalty" in line for line in warnings(found))


def test_revisits_are_counted_within_a_rollout_only():
    assert audit([Group((walk("w0", "abab"), walk("w1", "ab")))]).revisits == pytest.approx(1 / 4)


def test_schemes_with_low_coverage_are_named_with_the_reason():
    found = audit([Group((walk("w0", "abc"), walk("w1", "bcd")))])
    shown = warnings(found)
    assert any(line.startswith("grpo assigns credit to only 0%") and "none" in line for line in shown)
    assert any(line.startswith("grouptd assigns credit to only 0%") and "needs a success" in line for line in shown)
    assert any(line.startswith("hgpo assigns credit to only 0%") and "visited once" in line for line in shown)


def test_a_log_without_turns_is_an_error():
    empty = Trajectory("w0", "g", "task", (), False, 0.0, "env_limit", "a")
    with pytest.raises(DataError, match="no turns"):
        audit([Group((empty,))])


@pytest.mark.parametrize(
    ("singletons", "alone", "scheme"),
    [(0.2, 0.0, "grouptd"), (0.5, 0.5, "grouptd"), (0.83, 0.0, "blend"), (0.2, 1.0, ""), (0.83, 0.51, "")],
)
def test_the_recommendation_is_that_of_the_readmes_table(singletons: float, alone: float, scheme: str) -> None:
    found = audit([Group((walk("w0", "abg", "success"), walk("w1", "ac")))])
    found = replace(found, state=found.state._replace(singletons=singletons), singleton_groups=alone)
    name, reason = recommended(found)
    assert name == scheme
    shown = recommendation_text(name, reason)
    assert shown.startswith(f"Recommended scheme: {scheme or 'none'}")
    assert ("creditflow credit --scheme" in shown) == bool(scheme)
    if not scheme:
        assert "--group-size" in reason


def test_a_log_with_one_rollout_a_task_gets_no_recommendation(tmp_path, capsys) -> None:
    write_jsonl(tmp_path / "log.jsonl", [Group((walk("w0", "abg", "success", group=name),)) for name in "gh"])
    assert main(["audit", str(tmp_path / "log.jsonl")]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Recommended scheme: none\n") and "Why grouptd?" not in shown


def test_the_recommended_command_can_be_run_as_printed(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_jsonl("LOG", [Group((walk("w0", "abg", "success"), walk("w1", "ac")))])
    for scheme in ("grouptd", "blend"):
        command = recommendation_text(scheme, "keys").splitlines()[1].split()
        assert main([*command[1:], "--out", "credit.jsonl", "--force"]) == 0


def test_the_command_prints_text_and_json(tmp_path, capsys):
    log = tmp_path / "log.jsonl"
    write_jsonl(log, [Group((walk("w0", "abg", "success"), walk("w1", "ac")))])
    assert main(["audit", str(log)]) == 0
    shown = capsys.readouterr().out
    assert "1 group, 2 rollouts, 3 turns" in shown
    assert shown.startswith("Recommended scheme: grouptd, with its defaults\n")
    assert "\n    gdcr, sapo: the task lacks" in shown
    assert main(["audit", "--json", str(log)]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["turns"] == 3
    advice = data["recommendation"]
    assert advice["scheme"] == "grouptd" and advice["evidence"]
    assert main(["audit", str(log), "--out", str(tmp_path / "audit.txt")]) == 0
    assert (tmp_path / "audit.txt").read_text("utf-8") == shown  # with the characters that are not ASCII
    assert not shown.isascii()
