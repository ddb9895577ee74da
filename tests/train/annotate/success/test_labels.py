"""Labels of pivots: the rule, the judge, the file, the filters and the audit sample."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.wikisearch.questions import Entity, Question, SubQuestion
from creditflow.train.annotate.success.labelling.labellers import JudgeLabeller, RuleLabeller
from creditflow.train.annotate.success.labelling.labels import Labels, read_labels, write_labels
from creditflow.train.annotate.success.labelling.pipeline import judge_labeller, label_log, write_audit
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


def search(query, *found, shown="", **fields):
    """Fields of a search turn: the query, the passages found, and the observation before it."""
    return {"action": f"search: {query}", "queries": (query,), "doc_ids": found, "observation": shown, **fields}


def answer(text="Nora", shown=""):
    return {"action": f"answer: {text}", "observation": shown}


def episode(*turns, end: StopReason = "success", name="t"):
    made = tuple(Turn(f"s{t}", next_state_key=f"s{t + 1}", **fields) for t, fields in enumerate(turns))
    return Trajectory(name, "g", "task", made, end == "success", float(end == "success"), end, f"s{len(made)}")


def labels_of(*turns, end: StopReason = "success"):
    return RuleLabeller().label(episode(*turns, end=end), QUESTION)


def test_a_golden_query_that_finds_its_passage_is_a_pivot():
    assert labels_of(search("Elm Hall", "p0"), search("Rasmin Lee", "p1"), answer()) == ("+", "+", "+")


def test_a_repeated_query_is_no_pivot():
    assert labels_of(search("Elm Hall", "p0"), search("Elm Hall", "p0"), answer("x"), end="failed") == ("+", "-", "-")


def test_a_query_about_something_else_is_no_pivot_whatever_it_finds_by_chance():
    assert labels_of(search("Nora", "p0"), search("R. Lee", "p1"), answer()) == ("-", "+", "+")


def test_a_step_whose_premise_is_unknown_is_no_pivot():
    assert labels_of(search("Rasmin Lee", "p1"), search("Elm Hall", "p0"), answer()) == ("-", "+", "+")


def test_an_invalid_turn_has_no_label():
    assert labels_of({"action": "??", "parsed": False}, search("Elm Hall", "p0"), end="env_limit") == ("", "+")


def test_without_passage_ids_the_result_must_contain_the_sub_answer():
    steps = tuple(replace(step, passage_id="") for step in QUESTION.steps)
    question = replace(QUESTION, steps=steps)
    full = episode(search("Elm Hall", "a"), search("Rasmin Lee", "b", shown="Rasmin Lee built it"), answer(shown="?"))
    assert RuleLabeller().label(full, question) == ("+", "-", "+")


def test_a_judge_receives_open_steps_with_their_premises_filled_in():
    received = []

    def judge(question, golden, text):
        received.append((question, tuple(golden)))
        return float(golden[0] in text)

    full = episode(search("x"), search("y", shown="by Rasmin Lee"), answer(shown="taught by Nora"))
    assert JudgeLabeller(judge).label(full, QUESTION) == ("+", "+", "+")
    assert received == [("Who designed Elm Hall?", ("Rasmin Lee",)), ("Who taught Rasmin Lee?", ("Nora",))]


def test_a_judge_is_written_url_and_model():
    with pytest.raises(ConfigError, match="URL#MODEL"):
        judge_labeller("http://127.0.0.1:8000/v1")


# -- the file ---------------------------------------------------------------------------------------------------------------
def test_labels_read_back_as_they_were_written(tmp_path):
    one = Labels("g", "t", ("+", "-", ""), True, "rule")
    write_labels(tmp_path / "l.jsonl", [one])
    assert read_labels(tmp_path / "l.jsonl") == {("g", "t"): one}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"turn_labels": ["*"]}, "turn_labels must be a list"),
        ({"success": 1}, "success must be true or false"),
        ({"group_id": 3}, "must be texts"),
        ({"format_version": 1}, "this reader knows 2"),
    ],
)
def test_a_malformed_line_is_rejected_with_its_number(tmp_path, change, message):
    row = {
        "format_version": 2,
        "group_id": "g",
        "trajectory_id": "t",
        "turn_labels": [],
        "success": True,
        "labeller": "r",
    }
    (tmp_path / "l.jsonl").write_text(json.dumps(row | change) + "\n")
    with pytest.raises(DataError, match=f"line 1: not a line of labels: .*{message}"):
        read_labels(tmp_path / "l.jsonl")


def test_a_trajectory_labelled_twice_is_rejected(tmp_path):
    write_labels(tmp_path / "l.jsonl", [Labels("g", "t", (), True, "rule")] * 2)
    with pytest.raises(DataError, match="labelled twice"):
        read_labels(tmp_path / "l.jsonl")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (Labels("g", "t", ("+",), True, "rule"), "1 turn labels for 2 turns"),
        (Labels("g", "t", ("+", "-"), False, "rule"), "success is False in the labels, True in the log"),
        (Labels("g", "other", ("+", "-"), True, "rule"), "given to 't'"),
    ],
)
def test_labels_of_another_trajectory_are_rejected(labels, message):
    with pytest.raises(DataError, match=message):
        labels.check(episode(search("Elm Hall", "p0"), answer()))


# -- the pipeline -------------------------------------------------------------------------------------------------------------
def test_unusable_episodes_are_left_out_and_counted():
    group = Group(
        (
            episode(search("Elm Hall", "p0"), answer("x"), end="failed"),
            episode(answer("x"), end="failed", name="idle"),
            episode(search("Elm Hall", "p0"), end="env_error", name="broken"),
        ),
        QUESTION.to_json(),
    )
    result = label_log([group])
    assert [one.trajectory_id for one in result.labels] == ["t"]
    assert result.skipped == {"no tool was used": 1, "the episode ended by env_error": 1}
    assert result.success == 0.0


def branch_of(parent, turns, fork, end: StopReason = "success"):
    """A branch that leaves the parent before turn ``fork`` and stores only its own turns."""
    full = episode(*turns, end=end, name="branch")
    return replace(full, turns=full.turns[fork:], parent=parent.trajectory_id, fork_turn=fork)


def test_a_branch_is_labelled_with_what_its_prefix_found():
    shared = search("Elm Hall", "p0")
    parent = episode(shared, answer("x"), end="failed", name="parent")
    branch = branch_of(parent, [shared, search("Elm Hall", "p0"), search("Rasmin Lee", "p1"), answer()], 1)
    result = label_log([Group((parent, branch), QUESTION.to_json())])
    assert [one.turn_labels for one in result.labels] == [("+", "-"), ("-", "+", "+")]
    assert result.skipped == {}
    result.labels[1].check(branch)


def test_a_branch_is_labelled_like_the_full_episode_that_it_continues():
    turns = [search("Elm Hall", "p0"), search("Rasmin Lee", "p1"), answer()]
    parent = episode(*turns, name="parent")
    for fork in (1, 2):
        branch = branch_of(parent, turns, fork)
        labels = label_log([Group((parent, branch), QUESTION.to_json())]).labels
        assert labels[1].turn_labels == labels[0].turn_labels[fork:]


def test_a_branch_that_takes_no_turn_is_left_out():
    parent = episode(search("Elm Hall", "p0"), answer("x"), end="failed", name="parent")
    branch = branch_of(parent, [search("Elm Hall", "p0")], 1, "env_limit")
    assert label_log([Group((parent, branch), QUESTION.to_json())]).skipped == {"the branch ended where it began": 1}


def test_the_audit_numbers_the_turns_of_a_branch_from_the_start_of_its_episode(tmp_path):
    turns = [search("Elm Hall", "p0"), search("Rasmin Lee", "p1"), answer()]
    parent = episode(*turns, name="parent")
    group = Group((parent, branch_of(parent, turns, 1)), QUESTION.to_json())
    write_audit(tmp_path / "audit.txt", [group], label_log([group]).labels[1:], 1, 0)
    assert "[+] turn 2: search: Rasmin Lee" in (tmp_path / "audit.txt").read_text()


def test_labels_of_a_wrong_count_are_left_out():
    class Short:
        name = "short"

        def label(self, trajectory, question):
            return ("+",)

    result = label_log([Group((episode(search("Elm Hall", "p0"), answer()),), QUESTION.to_json())], Short())
    assert result.skipped == {"its labels do not match its turns": 1}


def test_a_log_without_golden_steps_is_rejected():
    group = Group((episode(search("Elm Hall", "p0"), answer()),), replace(QUESTION, steps=()).to_json())
    with pytest.raises(DataError, match="no golden steps"):
        label_log([group])


def test_the_command_writes_labels_and_an_audit_sample(tmp_path, capsys):
    members = tuple(episode(search("Elm Hall", "p0"), answer(), name=f"t{i}") for i in range(4))
    write_jsonl(tmp_path / "log.jsonl", [Group(members, QUESTION.to_json())])
    out = tmp_path / "labels.jsonl"
    assert main(["data", "label", str(tmp_path / "log.jsonl"), "--out", str(out), "--audit", "2"]) == 0
    assert len(read_labels(out)) == 4
    assert "4 trajectories, 8 turns '+', 0 '-', success 1.000" in capsys.readouterr().out
    audit = (tmp_path / "labels.audit.txt").read_text()
    assert audit.count("== t") == 2
    assert "[+] turn 1: search: Elm Hall   passages: p0" in audit


def test_the_audit_sample_depends_on_its_seed_alone(tmp_path):
    members = tuple(episode(search("Elm Hall", "p0"), answer(), name=f"t{i}") for i in range(30))
    group = Group(members, QUESTION.to_json())
    labels = label_log([group]).labels
    texts = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        assert write_audit(tmp_path / name, [group], labels, 5, seed) == 5
        texts.append((tmp_path / name).read_text())
    assert texts[0] == texts[1] != texts[2]
