"""Prediction files come from any source: a wrong one is rejected with the position of the error, whatever its size."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.errors import DataError
from creditflow.train.credit_set.predictions import Prediction, read_predictions
from creditflow.train.credit_set.reading import CreditTurn, ValuedAction, read_credit_set

ACTION = ValuedAction("a", 0.5, 0.0, (0.5, 0.5), 1.0)
TURNS = [
    CreditTurn(name, "e", "t", "p", 0, 5, 0, 9, ACTION, (ACTION, ACTION), 0.5, 0.0, (0.5, 0.5), 2.0)
    for name in ("one", "two")
]


def line(**fields):
    return json.dumps(fields)


ONE, TWO = line(turn_id="one", score=0.5), line(turn_id="two", score=1)


def read(tmp_path, *lines):
    path = tmp_path / "p.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return read_predictions(path, TURNS)


def test_order_blank_lines_and_other_fields_do_not_matter(tmp_path):
    more = line(turn_id="one", score=-3, alternatives=[1, 2.5], reason="because")
    assert read(tmp_path, TWO, "", ONE) == [Prediction(0.5), Prediction(1.0)]
    both = read(tmp_path, line(turn_id="two", score=0, alternatives=[0, 0]), more)
    assert both[0] == Prediction(-3.0, (1.0, 2.5))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([ONE], "1 of 2 turns have no prediction: two"),
        ([], "2 of 2 turns have no prediction"),
        ([ONE, TWO, ONE], "line 3: the turn 'one' occurs twice"),
        ([ONE, TWO, line(turn_id="three", score=1)], "line 3: the credit set has no turn 'three'"),
        ([ONE, '{"turn_id": "two", "score": NaN}'], "line 2: not JSON"),
        ([ONE, '{"turn_id": "two", "score": 1e999}'], "line 2: .*finite|line 2"),
        ([ONE, '{"turn_id": "two", "score": -Infinity}'], "line 2"),
        ([ONE, '{"turn_id": "two", "score": 1' + "0" * 5000 + "}"], "line 2"),
        ([ONE, line(turn_id="two", score="0.5")], "line 2: score must be a finite number"),
        ([ONE, line(turn_id="two", score=True)], "line 2: score must be a finite number"),
        ([ONE, line(turn_id="two", score=None)], "line 2: score must be a finite number"),
        ([ONE, line(turn_id="two")], "line 2: score must be a finite number"),
        ([ONE, line(turn_id=2, score=1)], "line 2: turn_id must be a string"),
        ([ONE, "[1]"], "line 2: expected an object"),
        ([ONE, '{"turn_id": "two", "turn_id": "two", "score": 1}'], "line 2"),
        ([ONE, line(turn_id="two", score=1, alternatives=[1])], "must have 2 numbers, one per alternative, got 1"),
        ([ONE, line(turn_id="two", score=1, alternatives=[1, 2, 3])], "at most 2 items"),
        ([ONE, line(turn_id="two", score=1, alternatives={"a": 1})], "must be a list"),
        ([ONE, line(turn_id="two", score=1, alternatives=[1, "x"])], "finite number"),
        ([ONE, line(turn_id="two", score=1, alternatives=[1, 2])], "not for one; rate all or none"),
        ([ONE, line(turn_id="two", score=1, reason="x" * 2**21)], "line 2"),
        ([ONE, "[" * 100_000], "line 2"),
        (["not json"], "line 1: not JSON"),
    ],
)
def test_wrong_predictions_are_rejected_with_their_position(tmp_path, lines, message):
    with pytest.raises(DataError, match=message):
        read(tmp_path, *lines)


def test_a_file_that_unpacks_to_too_much_is_rejected(tmp_path):
    path = tmp_path / "bomb.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=9) as stream:
        for _ in range(200):
            stream.write(b"\n" * 2**20)
    with pytest.raises(DataError):
        read_predictions(path, TURNS)


def test_endless_repetition_ends_at_the_first_repeated_line(tmp_path):
    path = tmp_path / "long.jsonl"
    path.write_text((ONE + "\n") * 200_000)
    with pytest.raises(DataError, match="line 2: the turn 'one' occurs twice"):
        read_predictions(path, TURNS)


@given(st.binary(max_size=300))
def test_any_bytes_are_rejected_or_read(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("p") / "p.jsonl"
    path.write_bytes(data)
    with pytest.raises(DataError):
        read_predictions(path, TURNS)
    with pytest.raises(DataError):
        list(read_credit_set(path))
