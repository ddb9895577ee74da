"""Episodes behind Search-R1's ``execute_predictions``: its texts and flags, a record of every row, credit on the rows' tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.worlds.wikisearch_small import small_env
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow import credit
from creditflow.envs.errors import ConfigError, DataError, EpisodeError, TrajectoryError
from creditflow.envs.tasks import Task
from creditflow.envs.wikisearch.env import WikiSearchEnv
from creditflow.train.adapters.search_r1_loop import (
    NOT_RUN,
    QuestionBook,
    SearchEpisodes,
    asked,
    require_plain_rewards,
    token_advantages,
)
from creditflow.wrappers.group_env import GroupEnv

SIZE = 3


def make() -> GroupEnv:
    return GroupEnv(lambda: small_env(dialect="search_r1", max_steps=6), size=1, texts=True)


def tasks(count: int = 2) -> list[Task]:
    source = make().tasks
    return [source.get(name) for name in source.task_ids()[:count] for _ in range(SIZE)]


def calls(task: Task) -> dict[str, str]:
    return {
        "search": f"<think>I look.</think><search> {task.content['text']} </search>",
        "right": f"So <answer>{task.content['answers'][0]}</answer>",
        "wrong": "<answer>nobody</answer>",
        "none": "I do not know.",
    }


def test_texts_and_flags_are_those_of_the_released_function() -> None:
    batch = tasks(1)
    episodes = SearchEpisodes(make)
    episodes.begin(batch)
    found = episodes.execute([calls(batch[0])[name] for name in ("search", "none", "wrong")], [True, True, True])
    assert [type(column) for column in found] == [list] * 4
    assert found.dones == [0, 0, 1]
    assert found.valid_action == [1, 0, 1]
    assert found.is_search == [1, 0, 0]
    assert found.next_obs[0].startswith("\n\n<information>Doc 1(Title: ")
    assert found.next_obs[0].endswith("</information>\n\n")
    assert found.next_obs[1].startswith("\nMy previous action is invalid. If I want to search, I should put")
    assert found.next_obs[2] == ""
    assert episodes.stepped == [True] * 3
    found = episodes.execute(["<search>a</search>"] * 3, np.array([True, False, False]), do_search=False)
    assert found == (["", "", ""], [0, 1, 1], [1, 0, 0], [1, 0, 0])
    assert episodes.stepped == [True, False, False]


def test_a_search_in_the_last_turn_is_recorded_and_not_run() -> None:
    batch = tasks(1)
    episodes = SearchEpisodes(make)
    episodes.begin(batch)
    words = calls(batch[0])
    episodes.execute([words["search"]] * SIZE)
    episodes.execute([words["search"], words["right"], words["none"]], do_search=False)
    [group] = episodes.end().groups
    cut, solved, mute = group.trajectories
    assert (cut.stop_reason, solved.stop_reason, mute.stop_reason) == ("env_limit", "success", "env_limit")
    assert [turn.invalid_reason for turn in cut.turns] == ["", NOT_RUN]
    assert [turn.valid for turn in cut.turns] == [True, False]
    assert cut.turns[1].action == words["search"]
    assert not cut.turns[1].queries
    assert not cut.turns[1].valid
    assert cut.turns[1].state_key == cut.turns[1].next_state_key
    assert not mute.turns[1].parsed
    assert group.task["documents"]


def test_rows_of_a_task_are_a_group_wherever_they_stand_and_threads_change_nothing() -> None:
    batch = tasks(2)
    batch = [batch[i] for i in (0, 3, 1, 4, 5, 2)]
    played = []
    for threads in (0, 3):
        episodes = SearchEpisodes(make, threads=threads)
        for _ in range(2):
            episodes.begin(batch)
            episodes.execute([calls(task)["search"] for task in batch])
            episodes.execute([calls(task)["right" if i % 2 else "wrong"] for i, task in enumerate(batch)])
            played.append(episodes.end())
        episodes.close()
    assert played[0].places == ((0, 0), (1, 0), (0, 1), (1, 1), (1, 2), (0, 2))
    assert [len(group) for group in played[0].groups] == [3, 3]
    assert played[0] == played[2]
    assert played[0] != played[1]  # another rollout, other names
    assert played[1] == played[3]


def test_an_environment_that_fails_ends_its_row_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    apply = WikiSearchEnv._apply

    def fails(self: WikiSearchEnv, call: Any) -> Any:
        if call.items == ("break",):
            raise OSError("the retrieval server is gone")
        return apply(self, call)

    monkeypatch.setattr(WikiSearchEnv, "_apply", fails)
    batch = tasks(1)
    episodes = SearchEpisodes(make)
    episodes.begin(batch)
    episodes.execute([calls(batch[0])["search"]] * SIZE)
    found = episodes.execute(["<search>break</search>", *[calls(batch[0])[name] for name in ("right", "wrong")]])
    assert found.dones == [1, 1, 1]
    played = episodes.end()
    assert [one.stop_reason for one in played.groups[0].trajectories] == ["env_error", "success", "failed"]
    spans = [[(2, 3), (2, 0)]] * SIZE
    mask = np.array([[1, 1, 0, 0, 0, 1, 1, 0]] * SIZE)
    out = token_advantages(played, spans, range(SIZE), mask, credit.make("grpo"))
    assert out[0, :2].all()
    assert not out[0, 5:].any()  # the turn that failed


def rollout(lengths: tuple[int, int] = (2, 3)) -> tuple[Any, list[list[tuple[int, int]]], np.ndarray[Any, Any]]:
    """Two tasks, three rows each of a search and an answer, or an answer at once; spans and mask of their tokens."""
    batch = tasks(2)
    episodes = SearchEpisodes(make)
    episodes.begin(batch)
    first = [calls(task)["wrong" if i % SIZE == 2 else "search"] for i, task in enumerate(batch)]
    done = episodes.execute(first).dones
    spans = [[(lengths[0], 0 if over else lengths[1])] for over in done]
    active = [not over for over in done]
    episodes.execute([calls(task)["right"] for task in batch], active)
    for row, one in enumerate(active):
        spans[row] += [(lengths[0], 0)] if one else []
    mask = np.zeros((len(batch), 2 * lengths[0] + lengths[1] + 1), np.int64)
    for row, parts in enumerate(spans):
        at = 0
        for written, shown in parts:
            mask[row, at : at + written] = 1
            at += written + shown
    return episodes.end(), spans, mask


@pytest.mark.parametrize("scheme", ["grpo", "gigpo", "graphgpo", "rewardflow", "gdcr"])
def test_every_turns_tokens_have_its_advantage_and_all_others_none(scheme: str) -> None:
    played, spans, mask = rollout()
    made = credit.make(scheme)
    rows = [5, 0, 3, 0, 4]  # reordered, dropped, copied
    out = token_advantages(played, spans, rows, mask[rows], made)
    assert out.dtype == np.float32
    assert not out[mask[rows] == 0].any()
    for i, row in enumerate(rows):
        group, member = played.places[row]
        wanted, at = made.assign(played.groups[group]).advantages[member], 0
        for number, (written, shown) in zip(wanted, spans[row], strict=True):
            assert (out[i, at : at + written] == np.float32(number)).all()
            at += written + shown
    cut = token_advantages(played, spans, [0, 1], mask[:2, :6], made)  # rows that were cut at a length
    assert np.array_equal(cut, token_advantages(played, spans, [0, 1], mask[:2], made)[:, :6])


def test_rows_that_do_not_fit_are_rejected() -> None:
    played, spans, mask = rollout()
    scheme = credit.make("gigpo")
    shifted = np.roll(mask, 1, axis=1)
    for rows, parts, columns, message in (
        ([0], spans, mask, "1 rows need a mask"),
        (range(6), spans, mask[0], "need a mask"),
        ([6], spans, mask[:1], "row 6 of a rollout of 6"),
        ([-1], spans, mask[:1], "row -1 of a rollout"),
        ([0], [spans[0][:1]], mask[:1], "has 2 turns and 1 sampled completions"),
        ([0], spans, shifted[:1], "info_mask must separate"),
        ([2], spans, np.ones_like(mask[:1]), "leave out the sampled token"),
    ):
        with pytest.raises(TrajectoryError, match=message):
            token_advantages(played, parts, rows, columns, scheme)
    with pytest.raises(ConfigError, match="annotators write"):
        token_advantages(played, spans, range(6), mask, credit.make("pica"))
    episodes = SearchEpisodes(make)
    episodes.begin(tasks(2)[::SIZE])
    episodes.execute(["<answer>a</answer>"] * 2)
    with pytest.raises(TrajectoryError, match="n_agent"):
        token_advantages(episodes.end(), [[(1, 0)]] * 2, [0, 1], np.ones((2, 1)), scheme)


def test_a_penalty_in_the_rewards_is_rejected() -> None:
    require_plain_rewards({"token_level_rewards": np.ones((2, 3)), "token_level_scores": np.ones((2, 3))})
    require_plain_rewards({"token_level_scores": np.ones((2, 3))})
    with pytest.raises(ConfigError, match="use_kl_loss"):
        require_plain_rewards({"token_level_rewards": np.zeros((2, 3)), "token_level_scores": np.ones((2, 3))})


def test_wrong_calls_are_rejected_with_the_reason() -> None:
    with pytest.raises(ConfigError, match="threads"):
        SearchEpisodes(make, threads=-1)
    episodes = SearchEpisodes(make)
    for call in (lambda: episodes.execute(["a"]), episodes.end):
        with pytest.raises(EpisodeError, match="begin"):
            call()
    episodes.begin(tasks(1))
    wrong: list[tuple[Any, Any, str]] = [
        (["a"], None, "one completion for each of the 3 episodes, got 1"),
        ("aaa", None, "got 'aaa'"),
        (["a"] * 3, [True], "a truth value for each of the 3 episodes, got 1"),
        (["a", None, "b"], None, "completion 1 must be a text"),
        (["a", "b", b"c"], None, "completion 2 must be a text"),
    ]
    for predictions, active, message in wrong:
        with pytest.raises(ConfigError, match=message):
            episodes.execute(predictions, active)


@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=80) | st.lists(
    st.sampled_from(["<search>", "</search>", "<answer>", "</answer>", "<information>", "a", " ", "\n", "<think>"]), max_size=9
).map("".join))  # fmt: skip
def test_any_text_is_one_turn_with_consistent_flags(text: str) -> None:
    episodes = EPISODES
    episodes.begin(tasks(1)[:1])
    [obs], [done], [valid], [search] = episodes.execute([text])
    assert (done, valid, search) in {(1, 1, 0), (0, 1, 1), (0, 0, 0)}
    assert bool(obs) == (not done)
    assert obs.startswith("\n\n<information>") == bool(search)
    [group] = episodes.end().groups
    [turn] = group.trajectories[0].turns
    assert turn.valid == bool(valid)


EPISODES = SearchEpisodes(make)


def test_an_overlong_completion_is_an_invalid_action() -> None:
    EPISODES.begin(tasks(1)[:1])
    found = EPISODES.execute(["<think>" + "x" * 50_000 + "</think><answer>a</answer>"])
    assert (found.dones, found.valid_action) == ([0], [0])


def test_questions_are_found_by_their_text() -> None:
    source = make().tasks
    book = QuestionBook(source)
    task = source.get(source.task_ids()[1])
    text = str(task.content["text"])
    for prompt in (
        f"Answer. Question: {text}\n",
        f"Question: an example? <answer> Beijing </answer>. Question:  {text.rstrip('?')}?\nassistant\n",
        f"user\nQuestion: {text.replace(' ', '  ')} ?",
    ):
        assert book.find([prompt])[0].task_id == task.task_id
    for prompt in ("", "Question:", "Question: \n \n", text):
        with pytest.raises(DataError, match="after 'Question:'"):
            asked(prompt)
    with pytest.raises(DataError, match="row 1: the question 'who\\?' is none of the 16"):
        book.find([f"Question: {text}", "Question: who?"])

    class Endless:
        def task_ids(self) -> tuple[str, ...]:
            return ()

    endless: Any = Endless()  # what the book reads of a source
    with pytest.raises(ConfigError, match="endless"):
        QuestionBook(endless)

    class Double(Endless):
        def task_ids(self) -> tuple[str, ...]:
            return ("a", "b")

        def get(self, name: str) -> Task:
            return Task(name, name, {"text": "Who?"})

    double: Any = Double()
    with pytest.raises(ConfigError, match="'a' and 'b' ask the same question"):
        QuestionBook(double)
