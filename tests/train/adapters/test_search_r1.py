"""Released Search-R1 trajectories as a log: states, outcomes, errors of malformed rows; the released file."""

from __future__ import annotations

import gzip
import json

import pytest
from helpers.shared_data import shared_file

from creditflow.envs.errors import DataError
from creditflow.train.adapters.logs.search_r1 import DISAGREEING, UNANSWERED, UNREAD, read_search_r1

DOCS = "Doc 1(Title: Nile) It is long.\nDoc 2(Title: Rhine) It is not."
RESPONSE = (
    f"Let me see. <search>Nile</search>\n\n<information>{DOCS}</information>\n\n"
    f"Once more. <search>river Nile</search>\n\n<information>{DOCS}</information>\n\n<answer>The Nile</answer>"
)
ROW = {"id": "base_7", "question": "Longest river?", "answers": ["Nile"], "model": "base", "response": RESPONSE}


def written(tmp_path, *rows):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_turns_have_states_thoughts_queries_and_documents(tmp_path):
    report = read_search_r1(written(tmp_path, ROW))
    (group,) = report.groups
    (member,) = group.trajectories
    first, again, answer = member.turns
    assert (member.success, member.stop_reason, member.policy) == (True, "success", "base")
    assert first.thought == "Let me see."
    assert (first.queries, len(first.doc_ids)) == (("Nile",), 2)
    assert first.effective
    assert not again.effective  # the same passages again: the same set, so the same state
    assert again.state_key == first.next_state_key == again.next_state_key
    assert again.observation.startswith("<information>")
    assert answer.reward == 1.0
    assert {group.task["documents"][name]["title"] for name in first.doc_ids} == {"Nile", "Rhine"}


@pytest.mark.parametrize(("before", "after"), [(" ", " "), ("\n\t", ""), ("", "  \n"), ("\u00a0", "\u2003")])
def test_white_space_around_queries_and_answers_is_stripped(tmp_path, before, after):
    """As in the released code, which strips what stands between the tags."""
    spaced = RESPONSE
    for text in ("Nile", "river Nile", "The Nile"):
        spaced = spaced.replace(f">{text}<", f">{before}{text}{after}<")
    assert spaced != RESPONSE
    plain, read = (
        read_search_r1(written(tmp_path, {**ROW, "response": response})).groups[0].trajectories[0]
        for response in (RESPONSE, spaced)
    )
    assert [(turn.queries, turn.action, turn.state_key) for turn in read.turns] == [
        (turn.queries, turn.action, turn.state_key) for turn in plain.turns
    ]


def test_text_keys_are_the_last_retrieved_text(tmp_path):
    (group,) = read_search_r1(written(tmp_path, ROW)).groups
    first, again, answer = group.trajectories[0].turns
    assert len({first.text_key, again.text_key}) == 2
    assert again.text_key == answer.text_key


def test_models_share_a_task_but_not_a_group(tmp_path):
    other = {**ROW, "id": "instruct_7", "model": "instruct"}
    report = read_search_r1(written(tmp_path, ROW, other, ROW))
    assert [len(group) for group in report.groups] == [2, 1]
    assert len({group.task_id for group in report.groups}) == 1


@pytest.mark.parametrize(
    ("more", "reason"),
    [({}, "env_limit"), ({"stop_reason": "length"}, "token_limit")],
)
def test_a_rollout_without_an_answer_was_cut_by_a_limit(tmp_path, more, reason):
    cut = {**ROW, "response": RESPONSE[: RESPONSE.index("<answer>")] + "I think", **more}
    report = read_search_r1(written(tmp_path, cut))
    member = report.groups[0].trajectories[0]
    assert (member.stop_reason, member.success) == (reason, False)
    assert not member.turns[-1].parsed
    assert (report.tally.notes[UNANSWERED], report.tally.notes[UNREAD]) == (1, 1)


def test_a_recorded_exact_match_decides_and_disagreement_is_counted(tmp_path):
    report = read_search_r1(written(tmp_path, {**ROW, "metric": {"em": 0.0}}))
    assert not report.groups[0].trajectories[0].success
    assert report.tally.notes[DISAGREEING] == 1


@pytest.mark.parametrize("recorded", [None, 0, 1, 0.0, 0.5, 1.0, True, False])
@pytest.mark.parametrize("answer", ["right", "wrong", "none"])
def test_every_disagreement_of_a_recorded_exact_match_with_ours_is_counted(tmp_path, answer, recorded):
    response = {
        "right": RESPONSE, "wrong": RESPONSE.replace("<answer>", "<answer>not "),
        "none": RESPONSE[: RESPONSE.index("<answer>")],
    }[answer]  # fmt: skip
    metric = {} if recorded is None else {"metric": {"em": recorded}}
    report = read_search_r1(written(tmp_path, {**ROW, "response": response, **metric}))
    ours = answer == "right"
    assert read_search_r1(written(tmp_path, {**ROW, "response": response})).groups[0].trajectories[0].success == ours
    assert report.tally.notes[DISAGREEING] == int(recorded is not None and (recorded >= 1) != ours)
    if answer == "none":
        assert not report.groups[0].trajectories[0].success, "no answer ends an episode with success"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (7, "line 1: a trajectory is a JSON object"),
        ({"question": "q", "answers": ["a"]}, "line 1: a trajectory needs a text under 'response'"),
        ({**ROW, "answers": "Nile"}, "a list of texts under 'answers'"),
        ({**ROW, "answers": []}, "at least one answer"),
    ],
)
def test_malformed_rows_are_named(tmp_path, row, message):
    with pytest.raises(DataError, match=message):
        read_search_r1(written(tmp_path, row))


def test_files_without_trajectories_are_rejected(tmp_path):
    empty = tmp_path / "empty.jsonl"
    empty.write_text("\n")
    with pytest.raises(DataError, match="contains no trajectories"):
        read_search_r1(empty)
    with pytest.raises(DataError, match="line 1: not JSON"):
        read_search_r1(_text(tmp_path, "no json"))
    with pytest.raises(DataError, match="cannot be read"):
        read_search_r1(tmp_path / "absent.jsonl")


def _text(folder, text):
    path = folder / "text.jsonl"
    path.write_text(text)
    return path


def test_the_released_rollouts_are_read_completely_and_graded_as_recorded():
    path = shared_file("data/search/trajectories_searchr1.jsonl.gz")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    report = read_search_r1(path)
    assert report.rollouts == len(rows)
    assert report.tally.notes[DISAGREEING] == 0
    assert report.to_json()["turns"] == sum(
        row["response"].count("<search>") + row["response"].count("<answer>") for row in rows
    )
    members = {m.trajectory_id: m for group in report.groups for m in group.trajectories}
    assert sum(m.success for m in members.values()) == sum(row["metric"]["em"] for row in rows)
    searched = [turn for m in members.values() for turn in m.turns if turn.queries]
    assert all(turn.doc_ids for turn in searched)
    # models without think tags have thoughts all the same
    instruct = [m for m in members.values() if m.policy == "instruct"]
    assert all("<think>" not in turn.response for m in instruct for turn in m.turns)
    assert all(any(turn.thought for turn in m.turns) for m in instruct)
