"""Snapshots and task contents: restored anywhere over the same corpus, rejected if malformed."""

import json
from typing import Any

import pytest
from helpers.worlds.wikisearch_small import small_env

from creditflow.envs.errors import DataError


def test_an_answered_snapshot_is_over() -> None:
    env = small_env()
    env.reset(seed=0)
    env.step("answer: nobody knows")
    _, info = env.set_state(env.get_state())
    assert info["admissible_actions"] == ()
    assert (info["answer"], info["stop_reason"]) == ("nobody knows", "failed")


@pytest.mark.parametrize(
    "damage",
    [
        {"format": "wikisearch/0"}, {"evidence": ["nowhere"]}, {"evidence": "x"}, {"steps": -1}, {"answer": 3}, {"question": {}},
        {"shown": {"tool": "search", "items": ["a"], "found": []}}, {"documents": [3]}, {"extra": 1},
    ],
)  # fmt: skip
def test_damaged_snapshots_are_rejected(damage: dict[str, Any]) -> None:
    env = small_env()
    env.reset(seed=0)
    data = {**json.loads(env.get_state()), **damage}
    with pytest.raises(DataError):
        env.set_state(json.dumps(data))


def test_a_snapshot_of_another_corpus_is_rejected() -> None:
    env = small_env()
    env.reset(seed=0)
    other = small_env(world={"articles": 300, "questions": 8, "seed": 4})
    with pytest.raises(DataError, match="corpus"):
        other.set_state(env.get_state())


def test_contents_of_another_corpus_or_world_are_rejected() -> None:
    env = small_env()
    env.reset(seed=0)
    content = dict(env.task.content)
    assert env.reset(options={"task": content})[1]["task_id"] == env.task.task_id
    assert env.reset(options={"task": {**content, "corpus": ""}})[1]["task_id"] == env.task.task_id
    locator = dict(env.tasks.rows[0].locator)  # type: ignore[attr-defined]  # RowTasks
    malformed: list[Any] = [
        {**content, "corpus": "0" * 32},
        {**locator, "world": [1, 200]},
        {**content, "version": 2},
        [],
        "x",
    ]
    for other in malformed:
        with pytest.raises(DataError):
            env.reset(options={"task": other})
