"""Recorded episodes as transcripts, so that outcome and format rewards can be paid, or paid anew, on any log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from creditflow.envs.errors import DataError, short_repr
from creditflow.envs.wikisearch.grading.rewards import Reward, Transcript
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.task_documents import strings_problem

__all__ = ["transcript_of", "with_reward", "with_reward_values"]

# Search-R1's answer rule counts the example in its prompt; recorded prompts hold the bare question
_EXAMPLE = "<answer> example </answer>"


def transcript_of(group: Group, index: int) -> Transcript:
    """One of a group's whole episodes as one text.

    The model's texts as they were recorded (else thought and action), each followed by what it was shown next. What an
    environment says to a refused action is in no log; such a turn is malformed without it.

    Args:
        group: rollouts of a question, whose payload has "answers" and "text".
        index: of the episode; a branch's begins with the turns that its ancestors store.

    Raises:
        DataError: the payload names no answers.
    """
    task, turns = group.task, group.episodes[index]
    golden = task.get("answers")
    if not golden or strings_problem(task, "answers"):
        raise DataError(
            f"trajectory {group.trajectories[index].trajectory_id!r}: rewards of answers need the golden ones, a list of "
            f"texts under 'answers' in the task's payload (a search log has them); got {short_repr(golden)}"
        )
    answers_to = [turn.observation for turn in turns[1:]] + [""]
    parts = [
        (turn.response or "\n".join(filter(None, (turn.thought, turn.action)))) + after
        for turn, after in zip(turns, answers_to, strict=True)
    ]
    first = turns[0].observation if turns else ""
    return Transcript("".join(parts), tuple(golden), str(task.get("text", "")), f"{_EXAMPLE}\n{first}")


def with_reward_values(group: Group, rewards: Mapping[str, Reward]) -> Group:
    """The group with ``reward.NAME`` among the values of every trajectory; what the environment paid stays.

    Raises:
        DataError: the payload names no answers.
    """
    members = []
    for i, member in enumerate(group.trajectories):
        transcript = transcript_of(group, i)
        paid = {f"reward.{name}": reward(transcript) for name, reward in rewards.items()}
        members.append(replace(member, values={**member.values, **paid}))
    return replace(group, trajectories=tuple(members))


def with_reward(group: Group, reward: Reward) -> Group:
    """The group as if the environment had paid this reward, on each rollout's last turn, and nothing else.

    Raises:
        DataError: the payload names no answers.
    """
    members = []
    for i, member in enumerate(group.trajectories):
        paid = reward(transcript_of(group, i))
        last = len(member.turns) - 1
        turns = tuple(replace(turn, reward=paid if t == last else 0.0) for t, turn in enumerate(member.turns))
        members.append(replace(member, turns=turns))
    return replace(group, trajectories=tuple(members))
