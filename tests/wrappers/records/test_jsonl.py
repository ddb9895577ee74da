"""Trajectory logs: what is written is read back; what strangers hand in is refused with file and line."""

from __future__ import annotations

import gzip
import io
import json
import resource
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from helpers.episodes.builders import walk
from helpers.episodes.strategies import groups
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.envs.errors import ConfigError, TrajectoryError
from creditflow.wrappers.records import jsonl
from creditflow.wrappers.trajectory import Group, Tokens, Trajectory, Turn, read_groups, read_jsonl, write_jsonl

# any text, lone surrogates included; a high and a low surrogate side by side *are* one character to JSON
anything = st.text(st.characters(), max_size=20).map(
    lambda s: s.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
)
any_number = st.floats(allow_nan=False, allow_infinity=False)
some_values = st.dictionaries(anything, any_number, max_size=2)


@st.composite
def any_trajectory(draw: st.DrawFn) -> Trajectory:
    keys = draw(st.lists(anything, min_size=1, max_size=4))
    words = st.lists(anything, max_size=2).map(tuple)
    turns = tuple(
        Turn(
            a, draw(anything), b, reward=draw(any_number), parsed=draw(st.booleans()), admissible=draw(st.booleans()),
            effective=draw(st.booleans()), cost=draw(st.floats(1e-300, 1e300)), observation=draw(anything),
            thought=draw(anything), response=draw(anything), text_key=draw(anything), action_key=draw(anything),
            invalid_reason=draw(anything), entities=draw(words), queries=draw(words), doc_ids=draw(words),
            images=draw(words), values=draw(some_values),
        )
        for a, b in pairwise(keys)
    )  # fmt: skip
    success = draw(st.booleans())
    n = draw(st.integers(0, 5))
    tokens = Tokens(
        np.array(draw(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=n, max_size=n)), np.int32),
        np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)), np.bool_),
        np.array(draw(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=n, max_size=n)),
                 np.float32),
        np.linspace(0, n, len(turns) + 1).astype(np.int32),
        tuple(np.arange(t, dtype=np.int32) for t in range(len(turns))) if draw(st.booleans()) else (),
        draw(anything),
    )  # fmt: skip
    return Trajectory(
        draw(anything), draw(anything), draw(anything), turns, success, draw(st.floats(0, 1)),
        "success" if success else draw(st.sampled_from(["failed", "env_limit", "format", "env_error"])), keys[-1],
        final_text_key=draw(anything), tokens=draw(st.sampled_from([None, tokens])), policy=draw(anything),
        seed=draw(st.integers(-(2**63), 2**63 - 1)), replica=draw(st.integers(0, 9)), trial=draw(st.integers(0, 3)),
        parent=draw(st.just("")), values=draw(some_values),
    )  # fmt: skip


# -- what is written is read back ---------------------------------------------------------------------------------------
@settings(max_examples=40)
@given(trajectories=st.lists(any_trajectory(), max_size=3))
def test_any_trajectory_survives_a_round_trip(trajectories):
    stream = io.StringIO()
    assert write_jsonl(stream, trajectories) == len(trajectories)
    assert stream.getvalue().isascii()
    stream.seek(0)
    assert list(read_jsonl(stream)) == trajectories


def test_lone_surrogates_survive(tmp_path):
    rollout = walk(["a\ud800", "b\udfff", "\x00\n\u2028"], actions=["\ud83d", "ok"])
    write_jsonl(tmp_path / "log.jsonl", [rollout])
    assert list(read_jsonl(tmp_path / "log.jsonl")) == [rollout]


@settings(max_examples=20)
@given(gs=st.lists(groups(), min_size=1, max_size=3))
@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz"])
def test_groups_and_their_payloads_survive_files(tmp_path_factory, suffix, gs):
    path = tmp_path_factory.mktemp("log") / f"log.{suffix}"
    gs = [
        Group(
            tuple(replace(m, group_id=f"g{i}", task_id=f"task{i}") for m in g.trajectories),
            {"question": "?", "gold": ["a", {"b": 1.5}]} if i else {},
        )
        for i, g in enumerate(gs)
    ]
    assert write_jsonl(path, gs) == sum(map(len, gs))
    assert read_groups(path) == gs


def test_the_payload_is_written_once_a_group(tmp_path):
    path = tmp_path / "log.jsonl"
    write_jsonl(path, [Group((walk("s g", name="a"), walk("s g", name="b")), {"question": "?"})])
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert ["task" in line for line in lines] == [True, False]
    assert all(line["format_version"] == 1 for line in lines)


def test_defaults_are_left_out(tmp_path):
    path = tmp_path / "log.jsonl"
    write_jsonl(path, [walk("s g", reward=0.0)])
    (turn,) = json.loads(path.read_text())["turns"]
    assert turn == {"state_key": "s", "action": "to g", "next_state_key": "g"}


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz"])
def test_equal_logs_are_equal_bytes(tmp_path, suffix):
    paths = [tmp_path / f"{name}.{suffix}" for name in ("one", "two")]
    for path in paths:
        write_jsonl(path, [walk("s a g"), walk("s b", "failed")])
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_keys_are_interned(tmp_path):
    write_jsonl(tmp_path / "log.jsonl", [walk("state0 state1 state0", "failed", name=str(i)) for i in range(2)])
    one, two = read_jsonl(tmp_path / "log.jsonl")
    assert one.turns[0].state_key is two.turns[1].next_state_key
    assert one.turns[0].action is two.turns[0].action


def test_fields_choose_the_long_texts_to_keep(tmp_path):
    turn = Turn("s", "x", "g", observation="long", thought="longer", response="longest", text_key="kept")
    write_jsonl(tmp_path / "log.jsonl", [Trajectory("t", "g", "task", (turn,), True, 1.0, "success", "g")])
    (some,) = read_jsonl(tmp_path / "log.jsonl", fields=["thought"])
    assert (some.turns[0].observation, some.turns[0].thought, some.turns[0].response) == ("", "longer", "")
    assert some.turns[0].text_key == "kept"
    (none,) = read_groups(tmp_path / "log.jsonl", fields=())
    assert none.turns[0] == replace(turn, observation="", thought="", response="")
    with pytest.raises(ConfigError, match="did you mean 'thought'"):
        list(read_jsonl(tmp_path / "log.jsonl", fields=["thoughts"]))


def test_a_last_line_without_newline_is_read(tmp_path):
    path = tmp_path / "log.jsonl"
    write_jsonl(path, [walk("s g")])
    path.write_text("\n" + path.read_text().rstrip("\n"))
    assert list(read_jsonl(path)) == [walk("s g")]


# -- files appear whole or not at all -----------------------------------------------------------------------------------
def failing():
    yield walk("s g")
    raise RuntimeError("the rollout broke")


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz"])
def test_a_writer_that_fails_leaves_no_file(tmp_path, suffix):
    with pytest.raises(RuntimeError, match="the rollout broke"):
        write_jsonl(tmp_path / f"log.{suffix}", failing())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz"])
def test_a_writer_that_fails_keeps_the_old_file(tmp_path, suffix):
    path = tmp_path / f"log.{suffix}"
    write_jsonl(path, [walk("s a g")])
    before = path.read_bytes()
    with pytest.raises(RuntimeError):
        write_jsonl(path, failing())
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_takes_the_name_of_the_old_one_in_one_step(tmp_path):
    path = tmp_path / "log.jsonl"
    write_jsonl(path, [walk("s a g")])
    with path.open() as reader:  # whoever reads the old file meanwhile reads it to its end
        write_jsonl(path, [walk("s b", "failed")])
        assert list(read_jsonl(reader)) == [walk("s a g")]
    assert list(read_jsonl(path)) == [walk("s b", "failed")]


@pytest.mark.parametrize(
    "bad",
    [
        walk("s g", values={"x": float("nan")}),
        walk("s g", values={"x": float("inf")}),
        walk("s g", values={"x": np.float32(1.0)}),
        Group((walk("s g"),), {"gold": {1, 2}}),
    ],
)
def test_what_json_cannot_hold_is_refused_by_name(tmp_path, bad):
    with pytest.raises(TrajectoryError, match="'s g' cannot be written"):
        write_jsonl(tmp_path / "log.jsonl", [bad])
    assert list(tmp_path.iterdir()) == []


# -- hostile input ------------------------------------------------------------------------------------------------------
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
    "a foreign object": ('{"messages": []}', "format_version is None, .* is this a creditflow trajectory log?"),
    "a later format": (changed(format_version=2), "format_version is 2, this reader knows 1"),
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
    "a discontinuous walk": (changed(turns=GOOD["turns"] * 2), "turn 1 begins in state 'a' but .* ended in 'b'"),  # type: ignore[operator]  # plain JSON
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
def test_hostile_lines_are_refused_with_file_and_line(tmp_path, name):
    line, message = HOSTILE[name]
    path = tmp_path / "log.jsonl"
    path.write_text(changed(trajectory_id="first") + "\n" + line + "\n")
    for read in (lambda: list(read_jsonl(path)), lambda: read_groups(path)):
        with pytest.raises(TrajectoryError, match=message) as caught:
            read()
        assert str(caught.value).startswith(f"{path}: line 2: ")
        assert len(str(caught.value)) < 1500


def test_the_unharmed_line_is_read(tmp_path):
    (tmp_path / "log.jsonl").write_text(changed(tokens=TOKENS, task={"deep": [[[[1]]]]}) + "\n")
    assert len(read_groups(tmp_path / "log.jsonl")) == 1


def test_lines_before_the_hostile_one_are_yielded(tmp_path):
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
def test_damaged_archives_are_refused_with_file_and_line(tmp_path, data, message):
    path = tmp_path / "log.jsonl.gz"
    path.write_bytes(data)
    with pytest.raises(TrajectoryError, match=message) as caught:
        list(read_jsonl(path))
    assert str(caught.value).startswith(f"{path}: ")
    assert "line" in str(caught.value)


@pytest.mark.parametrize("filler", [b" " * 2**20, (b" " * 4095 + b"\n") * 256], ids=["one line", "many lines"])
def test_gzip_bombs_are_refused_before_they_fill_the_memory(tmp_path, filler):
    path = tmp_path / "log.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=9) as file:
        for _ in range(100):
            file.write(filler)
    with pytest.raises(TrajectoryError, match="decompresses to more than 200 times its size"):
        list(read_jsonl(path))


def test_endless_lines_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(jsonl, "MAX_LINE", 1000)
    (tmp_path / "log.jsonl").write_text("x" * 1001)
    with pytest.raises(TrajectoryError, match="line 1: longer than 1,000 characters"):
        list(read_jsonl(tmp_path / "log.jsonl"))


@pytest.mark.parametrize("name", ["missing.jsonl", "missing.jsonl.gz", "."])
def test_paths_that_are_no_logs_are_named(tmp_path, name):
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
            [
                changed(parent="u", fork_turn=0),
                changed(trajectory_id="u", parent="t", fork_turn=0),
            ],
            "line 1 and later",
            "cycle",
        ),
    ],
)
def test_groups_that_do_not_fit_together_are_refused_with_file_and_line(tmp_path, lines, place, message):
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(TrajectoryError, match=message) as caught:
        read_groups(path)
    assert str(caught.value).startswith(f"{path}: {place}: ")


def test_trials_in_one_log_become_groups_of_their_own(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text(changed() + "\n" + changed(trial=1) + "\n")
    assert [g.trajectories[0].trial for g in read_groups(path)] == [0, 1]


def test_rollouts_are_read_by_group_or_by_task(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join([changed(group_id="1"), changed(group_id="2"), changed(group_id="3", task_id="u")]))
    assert [len(g) for g in read_groups(path)] == [1, 1, 1]
    by_task = read_groups(path, by="task")
    assert [(g.group_id, len(g)) for g in by_task] == [("task", 2), ("u", 1)]


def test_streams_are_named_by_what_they_are():
    with pytest.raises(TrajectoryError, match="<stream>: line 1: not JSON"):
        list(read_jsonl(io.StringIO("x\n")))


# -- a million turns ----------------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_a_million_turns_fit_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    rng = np.random.default_rng(0)

    def rollouts():
        for i in range(20_000):
            moves = rng.integers(0, 400, 51)
            rollout = walk([f"state {i // 8}:{k}" for k in moves], "failed", name=str(i))
            turns = tuple(replace(t, observation="you see a room. " * 10, thought="hm. " * 20) for t in rollout.turns)
            yield replace(rollout, turns=turns, group_id=f"g{i // 8}", task_id=f"t{i // 8}")

    write_jsonl(path, rollouts())
    collected = read_groups(path, fields=())
    assert sum(len(g.turns) for g in collected) == 1_000_000
    for g in collected:
        assert g.arrays.size == 8
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    print(f"1,000,000 turns: peak {peak / 2**20:.0f} MB")
    assert peak < 4 * 2**30
