"""Malformed and adversarial trajectory logs are rejected with file and line."""

from __future__ import annotations

import gzip
import io
import json

import pytest

from creditflow.envs.errors import TrajectoryError
from creditflow.wrappers.trajectory import read_groups, read_jsonl

GOOD = {
    "format_version": 1, "trajectory_id": "t", "group_id": "g", "task_id": "task", "success": True, "score": 1.0,
    "stop_reason": "success", "final_state_key": "b", "turns": [{"state_key": "a", "action": "x", "next_state_key": "b"}],
}  # fmt: skip
TOKENS = {"ids": [1, 2], "mask": [0, 1], "logprobs": [0.0, -1.0], "turn_offsets": [0, 2]}


def changed(**fields):
    return json.dumps(GOOD | fields)


def turned(**fields):
    return json.dumps(GOOD | {"turns": [GOOD["turns"][0] | fields]})  # type: ignore[index]  # plain JSON


def without(name):
    return json.dumps({k: v for k, v in GOOD.items() if k != name})


def raw(line, old, new):
    assert old in line
    return line.replace(old, new)


HOSTILE = {
    "no JSON": ("hello", "not JSON"),
    "a truncated line": (changed()[:-20], "not JSON"),
    "a foreign list": ("[1, 2]", "expected an object, got list"),
    "a foreign object": ('{"messages": []}', "format_version is None, expected 1. Is this a creditflow log?"),
    "a later format": (changed(format_version=2), "format_version is 2, expected 1"),
    "a format that is no integer": (changed(format_version=True), "format_version is True"),
    "a long format": (changed(format_version="9" * 10**6), "format_version is '9999"),
    "NaN": (raw(turned(reward=0.5), "0.5", "NaN"), "NaN is not a JSON number"),
    "Infinity": (raw(turned(reward=0.5), "0.5", "-Infinity"), "-Infinity is not a JSON number"),
    "1e999": (raw(turned(reward=0.5), "0.5", "1e999"), "turn 0: reward must be a finite number, got inf"),
    "1e999 in a payload": (
        raw(changed(task={"x": [{"y": 0.5}]}), "0.5", "1e999"),
        "task: contains a non-finite number",
    ),
    "a huge integer": (turned(reward=10**400), "reward must be a finite number"),
    "an endless integer": (raw(turned(reward=0.5), "0.5", "1" * 5000), "not JSON"),
    "a huge seed": (changed(seed=2**63), "seed must be a 64-bit integer"),
    "an unknown field of a trajectory": (changed(sucess=True), "unknown field 'sucess'; did you mean 'success'?"),
    "an unknown field of a turn": (turned(state="a"), "turn 0: unknown field 'state'; did you mean 'state_key'?"),
    "an endless field name": (turned(**{"x" * 10**6: 1}), "turn 0: unknown field"),
    "a missing field": (without("task_id"), "trajectory: missing task_id"),
    "missing turns": (without("turns"), "turns must be a list, got None"),
    "a turn that is no object": (changed(turns=[3]), "turn 0: expected an object, got int"),
    "a number for a text": (turned(action=3), "action must be a string, got 3"),
    "a text for a flag": (turned(parsed="yes"), "parsed must be true or false, got 'yes'"),
    "a number for a flag": (changed(success=1), "success must be true or false, got 1"),
    "a text for a number": (turned(reward="1"), "reward must be a finite number, got '1'"),
    "a flag for a number": (turned(reward=True), "reward must be a finite number, got True"),
    "null": (turned(observation=None), "observation must be a string, got None"),
    "a text for a list": (turned(entities="Paris"), "entities must be a list of strings"),
    "a list of numbers for texts": (turned(doc_ids=[1]), "doc_ids must be a list of strings"),
    "texts for values": (turned(values={"x": "1"}), "values must be a finite number"),
    "a task that is no object": (changed(task=[1]), "task must be an object"),
    "a negative cost": (turned(cost=-1), "cost must be positive"),
    "a discontinuous trajectory": (changed(turns=GOOD["turns"] * 2), "turn 1 begins in state 'a' but .* ended in 'b'"),  # type: ignore[operator]  # plain JSON
    "another end": (changed(final_state_key="c"), "final_state_key is 'c' but the last turn ended in 'b'"),
    "an unknown stop reason": (changed(stop_reason="won"), "stop_reason must be one of"),
    "a success that failed": (changed(stop_reason="failed"), "success is True but stop_reason is 'failed'"),
    "a score beyond one": (changed(score=2), "score must lie in"),
    "a branch without a fork": (changed(parent="t0"), "a branch needs fork_turn"),
    "tokens that are no object": (changed(tokens=[1]), "tokens: expected an object, got list"),
    "tokens without ids": (changed(tokens={"mask": []}), "tokens: missing ids, logprobs, turn_offsets"),
    "an unknown field of tokens": (changed(tokens=TOKENS | {"logprob": []}), "did you mean 'logprobs'"),
    "token ids of another length": (changed(tokens=TOKENS | {"ids": [1]}), "must have one length, got 1, 2, 2"),
    "token ids beyond 32 bits": (changed(tokens=TOKENS | {"ids": [1, 2**31]}), "ids must be a list of 32-bit integers"),
    "a mask of other numbers": (changed(tokens=TOKENS | {"mask": [0, 2]}), "mask must be a list of 0 and 1"),
    "logprobs beyond 32 bits": (changed(tokens=TOKENS | {"logprobs": [0, 1e300]}), "logprobs must be a list of 32-bit"),
    "offsets that fall": (changed(tokens=TOKENS | {"turn_offsets": [2, 0]}), "turn_offsets must rise"),
    "offsets for other turns": (changed(tokens=TOKENS | {"turn_offsets": [0, 1, 2]}), "1 turns need 2 token offsets"),
    "nesting in a payload": (raw(changed(task={"x": 0.5}), "0.5", "[" * 40 + "]" * 40), "deeper than 32 levels"),
    "nesting in a text": (raw(turned(action="@"), '"@"', "[" * 400 + "]" * 400), "action must be a string"),
    "nesting without end": (raw(turned(action="@"), '"@"', "[" * 10**5 + "]" * 10**5), "nested too deeply"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_malformed_lines_are_rejected_with_file_and_line(tmp_path, name):
    line, message = HOSTILE[name]
    path = tmp_path / "log.jsonl"
    path.write_text(changed(trajectory_id="first") + "\n" + line + "\n")
    for read in (lambda: list(read_jsonl(path)), lambda: read_groups(path)):
        with pytest.raises(TrajectoryError, match=message) as caught:
            read()
        assert str(caught.value).startswith(f"{path}: line 2: ")
        assert len(str(caught.value)) < 1500


def test_the_unchanged_line_is_read(tmp_path):
    (tmp_path / "log.jsonl").write_text(changed(tokens=TOKENS, task={"deep": [[[[1]]]]}) + "\n")
    assert len(read_groups(tmp_path / "log.jsonl")) == 1


def test_lines_before_the_malformed_one_are_yielded(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text(changed() + "\n" + "{")
    reader = read_jsonl(path)
    assert next(reader).trajectory_id == "t"
    with pytest.raises(TrajectoryError, match=r"line 2: .*\(the file ends here: is it truncated\?\)"):
        next(reader)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (gzip.compress((changed() + "\n").encode() * 50)[:-30], "damaged or truncated gzip"),
        (b"", "truncated"),
        (b"not gzip at all", "damaged or truncated gzip"),
        (gzip.compress(b"\xff\xfe\n"), "not UTF-8"),
    ],
    ids=["cut", "empty", "foreign", "bytes"],
)
def test_damaged_archives_are_rejected_with_file_and_line(tmp_path, data, message):
    path = tmp_path / "log.jsonl.gz"
    path.write_bytes(data)
    with pytest.raises(TrajectoryError, match=message) as caught:
        list(read_jsonl(path))
    assert str(caught.value).startswith(f"{path}: ")
    assert ("line" in str(caught.value)) == bool(data)  # an empty file has no line


@pytest.mark.parametrize("name", ["missing.jsonl", "missing.jsonl.gz", "."])
def test_paths_that_are_not_logs_are_errors(tmp_path, name):
    with pytest.raises(TrajectoryError, match=r"no such file|is a folder"):
        list(read_jsonl(tmp_path / name))


# -- groups that do not fit together ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("lines", "place", "message"),
    [
        ([changed(), changed(group_id="h"), changed()], "line 3", "already has a trajectory 't' .*line 1"),
        (
            [changed(group_id="h"), changed(), changed(trajectory_id="u", task_id="other")],
            "line 2 and later",
            "rollouts of one task",
        ),
        ([changed(parent="u", fork_turn=0)], "line 1 and later", "branches from 'u', not in the group"),
        (
            [changed(parent="u", fork_turn=0), changed(trajectory_id="u", parent="t", fork_turn=0)],
            "line 1 and later",
            "cycle",
        ),
    ],
)
def test_inconsistent_groups_are_rejected_with_file_and_line(tmp_path, lines, place, message):
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(TrajectoryError, match=message) as caught:
        read_groups(path)
    assert str(caught.value).startswith(f"{path}: {place}: ")


def test_errors_in_streams_name_the_stream():
    with pytest.raises(TrajectoryError, match="<stream>: line 1: not JSON"):
        list(read_jsonl(io.StringIO("x\n")))
