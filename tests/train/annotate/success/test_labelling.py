"""Labels of pivots: the judge, the filters and the audit sample."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from helpers.servers.replies import replying, serving

from creditflow.envs.errors import ConfigError, DataError, ServiceError
from creditflow.envs.wikisearch.questions import Entity, Question, SubQuestion
from creditflow.train.annotate.success.labelling import (
    JudgeLabeller,
    PivotJudge,
    judge_case,
    judge_labeller,
    label_log,
    write_audit,
)
from creditflow.train.annotate.success.labels import read_labels
from creditflow.train.cli import main
from creditflow.wrappers.records.jsonl import write_jsonl
from creditflow.wrappers.trajectory import Group, StopReason, Trajectory, Turn

QUESTION = Question(
    id="q", text="Who taught the designer of Elm Hall?", answers=("Nora",), kind="bridge",
    entities=(Entity("Elm Hall"), Entity("Rasmin Lee", ("R. Lee",)), Entity("Nora")),
    edges=(("Elm Hall", "architect", "Rasmin Lee"), ("Rasmin Lee", "teacher", "Nora")), answer_node="Nora",
    steps=(SubQuestion("Who designed Elm Hall?", "Rasmin Lee", "p0"), SubQuestion("Who taught #1?", "Nora", "p1")),
    supporting=("p0", "p1"), corpus="",
)  # fmt: skip


def chat(text):
    return {"choices": [{"message": {"content": text}}]}


def search(query, *found, shown="", **fields):
    """Fields of a search turn: the query, the passages found, and the observation before it."""
    return {"action": f"search: {query}", "queries": (query,), "doc_ids": found, "observation": shown, **fields}


def answer(text="Nora", shown=""):
    return {"action": f"answer: {text}", "observation": shown}


def episode(*turns, end: StopReason = "success", name="t"):
    made = tuple(Turn(f"s{t}", next_state_key=f"s{t + 1}", **fields) for t, fields in enumerate(turns))
    return Trajectory(name, "g", "task", made, end == "success", float(end == "success"), end, f"s{len(made)}")


def by_query(case):
    """Marks a step whose query names Elm Hall or Rasmin Lee for the first time."""
    seen, labels = set(), []
    for step in case["steps"]:
        [query] = step["query"]
        labels.append("+" if query in ("Elm Hall", "Rasmin Lee") and query not in seen else "-")
        seen.add(query)
    return {"reason": "", "labels": labels}


JUDGE = JudgeLabeller(by_query)


def thoughtful(*turns, end: StopReason = "success"):
    """The episode with a thought before every turn that names its number."""
    return episode(*({"thought": f"thought {t}", **fields} for t, fields in enumerate(turns)), end=end)


def test_a_judge_sees_the_golden_reference_and_every_step_with_its_whole_result():
    long = "Rasmin Lee built it. " + "x" * 5_000
    full = thoughtful(
        search("who built Elm Hall"), search("teacher of Lee", shown=long), answer(shown="Nora taught him")
    )
    assert judge_case(full, QUESTION) == {
        "question": "Who taught the designer of Elm Hall?",
        "correct_answer": ["Nora"],
        "hops": 2,
        "golden_sub_questions": [
            {"sub_question": "Who designed Elm Hall?", "answer": "Rasmin Lee"},
            {"sub_question": "Who taught Rasmin Lee?", "answer": "Nora"},
        ],
        "steps": [
            {"thought": "thought 0", "query": ["who built Elm Hall"], "result": long},
            {"thought": "thought 1", "query": ["teacher of Lee"], "result": "Nora taught him"},
        ],
        "final_thought": "thought 2",
        "final_answer": "answer: Nora",
    }


def test_a_judge_labels_the_searches_in_order_and_the_answer_has_the_label_of_the_outcome():
    full = episode(search("x"), {"action": "??", "parsed": False}, search("y"), answer())
    assert JudgeLabeller(lambda case: {"labels": ["-", "+"]}).label(full, QUESTION) == ("-", "", "+", "+")


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        (["+"], "its labels do not match its turns"),
        (["+", "+", "+"], "its labels do not match its turns"),
        (["+", "+"], "its answer is wrong and the judge finds no step at fault"),
    ],
)
def test_an_episode_is_skipped_whose_labels_by_the_judge_cannot_be_right(labels, reason):
    group = Group((episode(search("x"), search("y"), answer("z"), end="failed"),), QUESTION.to_json())
    report = label_log([group], JudgeLabeller(lambda case: {"labels": labels}))
    assert (report.labels, report.skipped) == ((), {reason: 1})


@pytest.mark.parametrize(
    "text", ["", "+ -", '{"labels": ["+"]}', '{"reason": "r", "labels": ["good"]}', '{"reason": 1}']
)
def test_a_reply_of_another_form_is_an_error(text):
    with serving(replying(chat(text))) as url, pytest.raises(ServiceError, match="the judge must reply"):
        PivotJudge(url, "m", max_attempts=1)({"steps": []})


def test_a_reply_may_stand_in_a_fenced_block():
    text = '```json\n{"reason": "r", "labels": ["+", "-"]}\n```'
    with serving(replying(chat(text))) as url:
        assert PivotJudge(url, "m", max_attempts=1)({"steps": []}) == {"reason": "r", "labels": ["+", "-"]}


def test_a_judge_is_written_url_and_model():
    with pytest.raises(ConfigError, match="URL#MODEL"):
        judge_labeller("http://127.0.0.1:8000/v1")


def test_unusable_episodes_are_left_out_and_counted():
    group = Group(
        (
            episode(search("Nora", "p0"), answer("x"), end="failed"),
            episode(answer("x"), end="failed", name="idle"),
            episode(search("Elm Hall", "p0"), end="env_error", name="broken"),
        ),
        QUESTION.to_json(),
    )
    result = label_log([group], JUDGE)
    assert [one.trajectory_id for one in result.labels] == ["t"]
    assert result.skipped == {"no tool was used": 1, "the episode ended by env_error": 1}
    assert result.success == 0.0


def branch_of(parent, turns, fork, end: StopReason = "success"):
    """A branch that leaves the parent before turn ``fork`` and stores only its own turns."""
    full = episode(*turns, end=end, name="branch")
    return replace(full, turns=full.turns[fork:], parent=parent.trajectory_id, fork_turn=fork)


def test_a_branch_is_labelled_with_what_its_prefix_found():
    shared = search("Elm Hall", "p0")
    parent = episode(shared, search("Nora"), end="env_limit", name="parent")
    branch = branch_of(parent, [shared, search("Elm Hall", "p0"), search("Rasmin Lee", "p1"), answer()], 1)
    result = label_log([Group((parent, branch), QUESTION.to_json())], JUDGE)
    assert [one.turn_labels for one in result.labels] == [("+", "-"), ("-", "+", "+")]
    assert result.skipped == {}
    result.labels[1].check(branch)


def test_a_branch_is_labelled_like_the_full_episode_that_it_continues():
    turns = [search("Elm Hall", "p0"), search("Rasmin Lee", "p1"), answer()]
    parent = episode(*turns, name="parent")
    for fork in (1, 2):
        branch = branch_of(parent, turns, fork)
        labels = label_log([Group((parent, branch), QUESTION.to_json())], JUDGE).labels
        assert labels[1].turn_labels == labels[0].turn_labels[fork:]


def test_a_branch_that_takes_no_turn_is_left_out():
    parent = episode(search("Elm Hall", "p0"), search("Nora"), end="env_limit", name="parent")
    branch = branch_of(parent, [search("Elm Hall", "p0")], 1, "env_limit")
    assert label_log([Group((parent, branch), QUESTION.to_json())], JUDGE).skipped == {
        "the branch ended where it began": 1
    }


def test_the_audit_numbers_the_turns_of_a_branch_from_the_start_of_its_episode(tmp_path):
    turns = [search("Elm Hall", "p0"), search("Rasmin Lee", "p1"), answer()]
    parent = episode(*turns, name="parent")
    group = Group((parent, branch_of(parent, turns, 1)), QUESTION.to_json())
    assert write_audit(tmp_path / "audit.txt", [group], label_log([group], JUDGE).labels[1:]) == 1
    assert "[+] turn 2: search: Rasmin Lee" in (tmp_path / "audit.txt").read_text()


def test_a_log_without_golden_steps_is_rejected():
    group = Group((episode(search("Elm Hall", "p0"), answer()),), replace(QUESTION, steps=()).to_json())
    with pytest.raises(DataError, match="no golden steps"):
        label_log([group], JUDGE)


def test_the_command_writes_labels_and_an_audit_sample(tmp_path, capsys):
    members = tuple(episode(search("Elm Hall", "p0"), answer(), name=f"t{i}") for i in range(30))
    write_jsonl(tmp_path / "log.jsonl", [Group(members, QUESTION.to_json())])
    out, audit = tmp_path / "labels.jsonl", tmp_path / "audit.txt"
    command = ["data", "label", str(tmp_path / "log.jsonl"), "--out", str(out), "--audit", str(audit)]
    with serving(replying(chat(json.dumps({"reason": "r", "labels": ["+"]})))) as url:
        assert main([*command, "--judge", f"{url}#m"]) == 0
    assert len(read_labels(out)) == 30
    assert "30 trajectories, 60 turns '+', 0 '-', success 1.000" in capsys.readouterr().out
    assert audit.read_text().count("== t") == 20
    assert "[+] turn 1: search: Elm Hall   passages: p0" in audit.read_text()
