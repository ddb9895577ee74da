"""Trajectory logs: round trips, atomic writing, and grouping."""

from __future__ import annotations

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


# -- round trips ---------------------------------------------------------------------------------------------------------
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


def test_the_payload_is_written_once_per_group(tmp_path):
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


# -- files are written completely or not at all --------------------------------------------------------------------------
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
    with path.open() as reader:  # a reader that has the old file open reads it to its end
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
def test_what_json_cannot_represent_is_rejected_by_name(tmp_path, bad):
    with pytest.raises(TrajectoryError, match="'s g' cannot be written"):
        write_jsonl(tmp_path / "log.jsonl", [bad])
    assert list(tmp_path.iterdir()) == []


# -- groups -------------------------------------------------------------------------------------------------------------
def test_trials_in_one_log_become_separate_groups(tmp_path):
    write_jsonl(tmp_path / "log.jsonl", [walk("s g"), replace(walk("s g"), trial=1)])
    assert [g.trajectories[0].trial for g in read_groups(tmp_path / "log.jsonl")] == [0, 1]


def test_rollouts_are_read_by_group_or_by_task(tmp_path):
    path, ids = tmp_path / "log.jsonl", [("1", "task"), ("2", "task"), ("3", "u")]
    write_jsonl(path, [replace(walk("s g"), group_id=group, task_id=task) for group, task in ids])
    assert [len(g) for g in read_groups(path)] == [1, 1, 1]
    by_task = read_groups(path, by="task")
    assert [(g.group_id, len(g)) for g in by_task] == [("task", 2), ("u", 1)]


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
