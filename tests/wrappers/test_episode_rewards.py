"""Recorded episodes as transcripts, and rewards computed from them."""

from __future__ import annotations

import pytest

from creditflow.envs.errors import DataError
from creditflow.envs.wikisearch.grading.rewards import REWARDS
from creditflow.wrappers.episode_rewards import transcript_of, with_reward, with_reward_values
from creditflow.wrappers.trajectory import Group, Trajectory, Turn

TASK = {"text": "Longest river?", "answers": ["Nile"]}


def episode(answer: str, *, thought: bool = True) -> Trajectory:
    think = "<think>hm</think>" if thought else ""
    turns = (
        Turn("a", "<search>rivers</search>", "b", reward=0.25, observation="Question: Longest river?",
             response=f"{think}<search>rivers</search>"),
        Turn("b", f"<answer>{answer}</answer>", "c", reward=0.5, observation="\n\n<information>Nile.</information>\n\n",
             response=f"{think}<answer>{answer}</answer>"),
    )  # fmt: skip
    won = answer == "Nile"
    return Trajectory(answer, "g", "t", turns, won, float(won), "success" if won else "failed", "c")


def test_a_transcript_has_responses_and_observations_in_order():
    transcript = transcript_of(Group((episode("Nile"),), TASK), 0)
    assert transcript.response == (
        "<think>hm</think><search>rivers</search>\n\n<information>Nile.</information>\n\n<think>hm</think><answer>Nile</answer>"
    )
    assert transcript.prompt.endswith("Question: Longest river?")
    assert (transcript.golden, transcript.question) == (("Nile",), "Longest river?")


def test_values_are_added_and_recorded_rewards_stay():
    group = with_reward_values(Group((episode("Nile"), episode("Po", thought=False)), TASK), REWARDS)
    values = [member.values for member in group.trajectories]
    assert [v["reward.search_r1_format"] for v in values] == pytest.approx([1.0, 0.1])
    assert [v["reward.em"] for v in values] == [1.0, 0.0]
    assert [turn.reward for turn in group.turns] == [0.25, 0.5, 0.25, 0.5]
    assert group.task == TASK


def test_with_reward_puts_the_reward_on_the_last_turn_only():
    group = with_reward(Group((episode("Nile"), episode("Po")), TASK), REWARDS["search_r1_format"])
    assert [turn.reward for turn in group.turns] == [0.0, 1.0, 0.0, pytest.approx(0.2)]


def test_a_task_without_answers_cannot_be_graded():
    with pytest.raises(DataError, match="'answers' in the task's payload"):
        with_reward(Group((episode("Nile"),)), REWARDS["em"])
