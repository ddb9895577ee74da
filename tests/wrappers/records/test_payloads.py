"""Every group of a log keeps the payload of its own lines."""

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.errors import TrajectoryError
from creditflow.wrappers.trajectory import Group, Trajectory, Turn, read_groups, write_jsonl

LINE = {
    "format_version": 1, "trajectory_id": "t", "group_id": "g", "task_id": "task", "success": True, "score": 1.0,
    "stop_reason": "success", "final_state_key": "b", "turns": [{"state_key": "a", "action": "x", "next_state_key": "b"}],
}  # fmt: skip


def log(*lines: dict[str, Any]) -> io.StringIO:
    return io.StringIO("".join(json.dumps(LINE | fields) + "\n" for fields in lines))


def rollout(group: str, task: str, number: int, trial: int) -> Trajectory:
    return Trajectory(str(number), group, task, (Turn("a", "x", "b"),), True, 1.0, "success", "b", trial=trial)


PAYLOADS = st.dictionaries(st.sampled_from(["question", "documents"]), st.dictionaries(st.text(max_size=3), st.text(max_size=3)), min_size=1)  # fmt: skip


@given(st.lists(st.tuples(st.sampled_from(["x", "y"]), st.integers(0, 1), PAYLOADS), max_size=5), st.data())
def test_groups_with_payloads_read_back_as_written_whatever_their_tasks(
    rows: list[tuple[str, int, dict[str, Any]]], data: st.DataObject
) -> None:
    groups = []
    for number, (task, trial, payload) in enumerate(rows):
        size = data.draw(st.integers(1, 3))
        groups.append(Group(tuple(rollout(f"g{number}", task, i, trial) for i in range(size)), payload))
    stream = io.StringIO()
    write_jsonl(stream, groups)
    assert read_groups(io.StringIO(stream.getvalue())) == groups


def test_a_group_without_payload_takes_its_tasks() -> None:
    found = read_groups(log({"task": {"question": "?"}}, {"group_id": "h"}, {"group_id": "i", "task_id": "other"}))
    assert [group.task for group in found] == [{"question": "?"}, {"question": "?"}, {}]


def test_a_group_without_payload_whose_task_has_two_is_rejected() -> None:
    stream = log({"task": {"a": 1}}, {"group_id": "h", "task": {"a": 2}}, {"group_id": "i"})
    with pytest.raises(TrajectoryError, match=r"'i' has no task payload, and .* different ones .*line 1; .*line 2"):
        read_groups(stream)


def test_a_group_with_two_payloads_is_rejected() -> None:
    with pytest.raises(TrajectoryError, match=r"line 2: group 'g' already has another task payload .*line 1"):
        read_groups(log({"task": {"a": 1}}, {"trajectory_id": "u", "task": {"a": 2}}))


def test_by_task_the_documents_of_all_groups_are_joined() -> None:
    first = {"question": "?", "documents": {"d": "one"}}
    [group] = read_groups(
        log({"task": first}, {"group_id": "h", "task": first | {"documents": {"e": "two"}}}), by="task"
    )
    assert group.task == {"question": "?", "documents": {"d": "one", "e": "two"}}


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"question": "!"}, "one task has different payloads"),
        ({"question": "?", "documents": {"d": "two"}}, "the document 'd' has different texts"),
        ({"question": "?", "documents": ["d"]}, "documents must be an object"),
    ],
)
def test_by_task_payloads_that_contradict_each_other_are_rejected(other: dict[str, Any], message: str) -> None:
    first = {"question": "?", "documents": {"d": "one"}}
    with pytest.raises(TrajectoryError, match=message):
        read_groups(log({"task": first}, {"group_id": "h", "task": other}), by="task")
