"""The file of labels: it reads back what was written, and rejects what is malformed or belongs to another log."""

from __future__ import annotations

import json

import pytest

from creditflow.envs.errors import DataError
from creditflow.train.annotate.success.labels import Labels, read_labels, write_labels
from creditflow.wrappers.trajectory import Trajectory, Turn

TURNS = (Turn("s0", "search: Elm Hall", "s1", queries=("Elm Hall",)), Turn("s1", "answer: Nora", "s2"))
EPISODE = Trajectory("t", "g", "task", TURNS, True, 1.0, "success", "s2")


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
        ({"format_version": 1}, "expected 2"),
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
        labels.check(EPISODE)
