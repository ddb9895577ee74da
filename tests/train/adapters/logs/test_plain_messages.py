"""Plain messages: ids and order are the user's, ends and rewards are what the file says, and what is missing is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.foreign_logs import SAMPLES, as_lines, sample
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.errors import DataError
from creditflow.train.adapters.logs.episodes import ENDS, ImportSettings
from creditflow.train.adapters.logs.reading import read_log
from creditflow.train.adapters.logs.rows import ImportReport
from creditflow.train.cli import main
from creditflow.wrappers.records.jsonl import read_groups, read_jsonl, write_jsonl
from creditflow.wrappers.records.jsonl import read_log as read_own_log

ROW: dict[str, Any] = SAMPLES["messages"][0]


def read(tmp_path: Path, *rows: dict[str, Any], **settings: Any) -> ImportReport:
    path = tmp_path / "log.jsonl"
    path.write_bytes(as_lines(list(rows)))
    return read_log("messages", path, ImportSettings(**settings))


def one(tmp_path: Path, row: dict[str, Any], **settings: Any) -> Any:
    [group] = read(tmp_path, row, **settings).groups
    [trajectory] = group.trajectories
    return trajectory


def without(*names: str) -> dict[str, Any]:
    return {name: value for name, value in ROW.items() if name not in names}


def test_tool_calls_are_actions_and_tools_answer_in_the_next_observation(tmp_path: Path) -> None:
    first, second = one(tmp_path, ROW).turns
    assert first.action == 'go({"to": "B"})'
    assert "You are in room A" in first.observation
    assert (second.observation, second.action) == ("You are in room B.", "done 0")


def test_ids_tasks_and_groups_are_kept_as_given(tmp_path: Path) -> None:
    found = one(tmp_path, ROW)
    assert (found.trajectory_id, found.group_id, found.task_id) == ("run-0", "rooms/0", "rooms/0")
    found = one(tmp_path, {**ROW, "group_id": 7})
    assert (found.trajectory_id, found.group_id, found.task_id) == ("run-0", "7", "rooms/0")
    row = {**without("id", "task_id"), "meta": {"uid": 12, "prompt": "p-3"}}
    found = one(tmp_path, row, id="meta.uid", group="meta.prompt")
    assert (found.trajectory_id, found.group_id, found.task_id) == ("12", "p-3", "p-3")
    found = one(tmp_path, without("id", "task_id"))
    assert found.trajectory_id == "line 1"
    assert found.group_id == found.task_id == one(tmp_path, without("id", "task_id")).task_id


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0.0, 1.0])), min_size=2, max_size=12))
def test_every_line_of_the_credit_stands_where_its_row_stood(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[int, float]]
) -> None:
    folder = tmp_path_factory.mktemp("order")
    rows = [{**ROW, "id": f"r{i}", "task_id": f"t{task}", "reward": reward} for i, (task, reward) in enumerate(drawn)]
    (folder / "mine.jsonl").write_bytes(as_lines(rows))
    log, out = str(folder / "log.jsonl"), str(folder / "credit.jsonl")
    assert main(["data", "import", "messages", str(folder / "mine.jsonl"), "--out", log]) == 0
    for grouping in ("group", "task"):
        assert main(["credit", "--scheme", "grpo", log, "--group-by", grouping, "--out", out, "--force"]) == 0
        lines = [json.loads(line) for line in Path(out).read_text().splitlines()]
        assert [line["trajectory_id"] for line in lines] == [row["id"] for row in rows]
        assert [line["group_id"] for line in lines] == [row["task_id"] for row in rows]


@pytest.mark.parametrize("name", SAMPLES)
def test_ids_and_order_of_every_importer_survive_to_the_credit(name: str, tmp_path: Path) -> None:
    source, _ = sample(name)
    rows = SAMPLES[name]
    if name != "verl-agent":  # groups alternate
        rows = [rows[i] for i in (0, 2, 1, 3)]
    (tmp_path / "mine.jsonl").write_bytes(as_lines(rows))
    log, out = str(tmp_path / "log.jsonl"), str(tmp_path / "credit.jsonl")
    assert main(["data", "import", source, str(tmp_path / "mine.jsonl"), "--out", log]) == 0
    assert main(["credit", "--scheme", "grpo", log, "--out", out]) == 0
    ids = [json.loads(line)["trajectory_id"] for line in Path(out).read_text().splitlines()]
    fields = {"messages": "id", "openenv": "episode_id", "verl": "uid"}
    if name in fields:
        assert ids == [row[fields[name]] for row in rows]
    elif name == "verifiers":
        assert ids == [row["traces"][0]["id"] for row in rows]
    elif name == "verl-agent":
        assert ids == [f"t{i}" for i in range(4)]
    else:
        assert ids == [f"line {n}" for n in range(1, 5)]
    assert [t.trajectory_id for t in read_jsonl(log)] == ids


@pytest.mark.parametrize(
    ("word", "limit"), [*ENDS.items(), ("LENGTH", "token_limit"), (True, ""), (False, "env_limit")]
)
def test_an_end_is_what_the_field_says(word: Any, limit: str, tmp_path: Path) -> None:
    assert one(tmp_path, {**ROW, "reward": 0.0, "done": word}).stop_reason == (limit or "failed")
    assert one(tmp_path, {**without("done"), "reward": 0.0, "end": {"why": word}}, done="end.why").stop_reason == (
        limit or "failed"
    )


def test_unknown_ends_are_counted(tmp_path: Path) -> None:
    report = read(tmp_path, without("done"), ROW)
    assert next(count for note, count in report.tally.notes.items() if "--done FIELD" in note) == 1


def test_rewards_of_turns_are_kept(tmp_path: Path) -> None:
    found = one(tmp_path, {**ROW, "reward": [0.25, 0.75]})
    assert ([turn.reward for turn in found.turns], found.success) == ([0.25, 0.75], True)


@pytest.mark.parametrize(
    ("row", "settings", "message"),
    [
        ({**without("messages"), "talk": ROW["messages"]}, {}, "name the field with --messages talk"),
        ({**without("reward"), "points": 1.0}, {}, "there is no reward under 'reward'; name the field with --reward, such as points"),
        ({**ROW, "reward": [1.0]}, {}, "has not one reward for each turn of the model: 1 for 2"),
        ({**ROW, "done": "who knows"}, {}, "unknown ways to end: 'who knows' .1.. Known are true, done, stop"),
        (ROW, {"done": "finish"}, "there is no end under 'finish'"), (ROW, {"id": "uid"}, "there is no id under 'uid'"),
        (ROW, {"group": "g"}, "there is no group under 'g'"),
        ({**ROW, "messages": ROW["messages"][:2]}, {}, "no message was written by the model"),
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_read_says_what_was_expected(
    row: dict[str, Any], settings: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, row, **settings, strict=True)


def test_messages_under_another_key_are_read_by_its_name(tmp_path: Path) -> None:
    row = {**without("messages"), "talk": ROW["messages"]}
    assert len(one(tmp_path, row, messages="talk").turns) == 2


def test_ids_that_repeat_are_counted_and_those_that_were_asked_for_are_an_error(tmp_path: Path) -> None:
    other = {**ROW, "reward": 0.5}
    report = read(tmp_path, ROW, other)
    [group] = report.groups
    assert [member.trajectory_id for member in group.trajectories] == ["run-0", "line 2"]
    assert report.tally.notes["ids repeat within a group; these rollouts are named by their place in the file"] == 1
    report = read(tmp_path, ROW, other, id="id")
    assert report.tally.left_out["another rollout of its group has the same id under 'id'"] == 1


def test_a_group_with_rollouts_of_two_tasks_is_counted(tmp_path: Path) -> None:
    report = read(tmp_path, {**ROW, "group_id": "g"}, {**ROW, "group_id": "g", "task_id": "other"})
    assert report.tally.left_out == {"its group has rollouts of another task": 1}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_log_in_which_the_model_never_wrote_anything_is_an_error(name: str, tmp_path: Path) -> None:
    source, _ = sample(name)
    text = json.dumps(SAMPLES[name])
    rows = json.loads(text)
    for row in rows:
        for message in _written(row):
            message.pop("tool_calls", None)
            message["content"] = None
        for key in ("output", "completion"):
            if isinstance(row.get(key), str):
                row[key] = ""
    (tmp_path / "mine.jsonl").write_bytes(as_lines(rows))
    with pytest.raises(DataError, match=r"all \d+ responses are empty, so there is nothing to learn|could be read"):
        read_log(source, tmp_path / "mine.jsonl")


def _written(value: Any) -> Any:
    """All messages of the model, wherever they stand in a row."""
    if isinstance(value, list):
        for item in value:
            yield from _written(item)
    elif isinstance(value, dict):
        if value.get("role") == "assistant":
            yield value
        for item in value.values():
            yield from _written(item)


def test_some_empty_responses_and_groups_of_one_are_warned_of_with_their_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{**ROW, "id": f"{g}-{i}", "group_id": f"g{g}", "reward": i % 2} for g in range(4) for i in range(3)]
    for row in rows:
        row["task_id"] = row["group_id"]
    rows[-1] |= {"group_id": "g33", "task_id": "g33"}  # a slip
    rows[0]["messages"] = [
        *ROW["messages"],
        {"role": "user", "content": "and?"},
        {"role": "assistant", "body": "under another key"},
    ]
    (tmp_path / "mine.jsonl").write_bytes(as_lines(rows))
    command = ["data", "import", "messages", str(tmp_path / "mine.jsonl"), "--out", str(tmp_path / "log.jsonl")]
    assert main(command) == 0
    text = capsys.readouterr().out
    assert "warning: 1 of 25 responses are empty" in text
    assert (
        "warning: 1 of 5 groups have one rollout, which nothing is compared with (groups by size: 3 of 3, 1 of 2, 1 of 1)"
        in text
    )
    assert len(read_groups(tmp_path / "log.jsonl")) == 5


def test_equal_rewards_everywhere_are_warned_of(tmp_path: Path) -> None:
    rows = [{**ROW, "id": f"{i}", "reward": 0.0} for i in range(4)]
    assert read(tmp_path, *rows).warnings() == [
        "all rollouts of every group have equal rewards (1 groups): outcomes alone teach nothing"
    ]


WORDS = st.sampled_from(["a", "b"])
EXCHANGES = st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=4)  # a response, and what is shown after it


def tree_row(name: str, turns: list[tuple[str, str]], **fields: Any) -> dict[str, Any]:
    """A row of the task "t"; the last answer of the environment is left out."""
    messages = [{"role": "user", "content": "start"}]
    for said, shown in turns:
        messages += [{"role": "assistant", "content": said}, {"role": "user", "content": shown}]
    return {"id": name, "task_id": "t", "messages": messages[:-1], "reward": len(turns), "done": True, **fields}


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4), EXCHANGES), min_size=1, max_size=5),
    st.sampled_from(["observation", "history", "none"]),
)
def test_branches_are_stored_once_and_their_episodes_are_the_rows(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[int, int, list[tuple[str, str]]]], mode: str
) -> None:
    folder = tmp_path_factory.mktemp("branches")
    played: list[list[tuple[str, str]]] = [[("a", "a"), ("b", "b")]]
    rows = [tree_row("0", played[0])]
    for number, (of, fork, own) in enumerate(drawn, start=1):
        parent = of % number
        played.append([*played[parent][:fork], *own])
        rows.append(tree_row(str(number), played[-1], parent=str(parent)))
    report = read(folder, *rows, state_key=mode)
    [group] = report.groups
    spelled = {row["id"]: [m["content"] for m in row["messages"]] for row in rows}
    for member, episode in zip(group.trajectories, group.episodes, strict=True):
        texts = [text for turn in episode for text in (turn.observation, turn.response)]
        assert texts == spelled[member.trajectory_id]
        assert [turn.reward for turn in episode if turn.reward] == [len(episode)]
    assert not report.tally.left_out
    assert len(group) == len(rows)
    first, second = folder / "first.jsonl", folder / "second.jsonl"
    write_jsonl(first, report.log)
    write_jsonl(second, read_own_log(first))
    assert first.read_bytes() == second.read_bytes()
    plain = read(folder, *[{**row, "parent": None} for row in rows], state_key=mode)
    assert [len(member.turns) for member in plain.groups[0].trajectories] == [len(row["messages"]) // 2 for row in rows]


def test_a_shared_turn_is_stored_by_the_parent_and_what_is_not_shared_stays(tmp_path: Path) -> None:
    ended = tree_row("ended", [("a", "x"), ("b", "y")], parent="root", reward=0)
    ended["messages"].append({"role": "user", "content": "y"})
    rows = [
        tree_row("root", [("a", "x"), ("b", "y"), ("c", "z")]),
        tree_row("branch", [("a", "x"), ("b", "other"), ("c", "z")], parent="root"),  # another answer
        tree_row("alone", [("b", "x")], parent="root"),
        tree_row("late", [("a", "x")], parent="unknown"),
        ended,  # all of its turns are its parent's, its outcome is its own
    ]
    report = read(tmp_path, *rows)
    [group] = report.groups
    assert [(one.trajectory_id, one.parent, one.fork_turn, len(one.turns)) for one in group.trajectories] == [
        ("root", "", -1, 3), ("branch", "root", 1, 2), ("alone", "", -1, 1), ("late", "", -1, 1), ("ended", "root", 2, 0),
    ]  # fmt: skip
    assert group.arrays.returns.tolist() == [3.0, 3.0, 1.0, 1.0, 0.0]
    notes = " ".join(report.tally.notes)
    assert "no earlier rollout of their group" in notes
    assert "begin with no turn of their parent" in notes
