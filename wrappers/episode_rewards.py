"""Recorded episodes as transcripts, to compute outcome and format rewards on any log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from creditflow.envs.errors import DataError, short_repr
from creditflow.envs.wikisearch.grading.rewards import Reward, Transcript
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.task_documents import strings_problem

__all__ = ["transcript_of", "with_reward", "with_reward_values"]

# Search-R1's answer rule counts the example in its prompt; recorded prompts contain only the question
_EXAMPLE = "<answer> example </answer>"


def transcript_of(group: Group, index: int) -> Transcript:
    """Return one of a group's full episodes as one text.

    It consists of the responses as recorded (else thought and action), each followed by the next observation. An
    environment's message about an invalid action is not logged, so the transcript of such a turn is malformed.

    Args:
        group: rollouts of a question, whose payload has "answers" and "text".
        index: index of the episode; that of a branch begins with the turns that its ancestors store.

    Raises:
        DataError: the payload has no answers.
    """
    task, turns = group.task, group.episodes[index]
    golden = task.get("answers")
    if not golden or strings_problem(task, "answers"):
        raise DataError(
            f"trajectory {group.trajectories[index].trajectory_id!r}: rewards of answers need golden answers, a list of "
            f"strings under 'answers' in the task's payload (search logs have them); got {short_repr(golden)}"
        )
    next_observations = [turn.observation for turn in turns[1:]] + [""]
    exchanges = [
        (turn.response or "\n".join(filter(None, (turn.thought, turn.action)))) + after
        for turn, after in zip(turns, next_observations, strict=True)
    ]
    first = turns[0].observation if turns else ""
    return Transcript(
        "".join(exchanges),
        tuple(golden),
        str(task.get("text", "")),
        f"{_EXAMPLE}\n{first}",
        turns=tuple((turn.response or turn.action, turn.thought) for turn in turns),
    )


def with_reward_values(group: Group, rewards: Mapping[str, Reward]) -> Group:
    """Add ``reward.NAME`` to the values of every trajectory; the environment's rewards are unchanged.

    Raises:
        DataError: the payload has no answers.
    """
    members = []
    for i, member in enumerate(group.trajectories):
        transcript = transcript_of(group, i)
        rewards_by_name = {f"reward.{name}": reward(transcript) for name, reward in rewards.items()}
        members.append(replace(member, values={**member.values, **rewards_by_name}))
    return replace(group, trajectories=tuple(members))


def with_reward(group: Group, reward: Reward) -> Group:
    """Replace the recorded rewards by this reward on the last turn of each trajectory.

    Raises:
        DataError: the payload has no answers.
    """
    members = []
    for i, member in enumerate(group.trajectories):
        outcome = reward(transcript_of(group, i))
        last = len(member.turns) - 1
        turns = tuple(replace(turn, reward=outcome if t == last else 0.0) for t, turn in enumerate(member.turns))
        members.append(replace(member, turns=turns))
    return replace(group, trajectories=tuple(members))
