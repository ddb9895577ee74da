"""From other trainers' episodes to groups of one task.

An episode played in our environments carries its record (``text_episode.py``). One that was played elsewhere becomes a
trajectory by ``plain_trajectory``: what identifies its states must be given, for instance the observations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from creditflow.envs.errors import TrajectoryError, short_repr
from creditflow.envs.foreign.keys import content_key
from creditflow.train.adapters.text_episode import FIELD
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl_lines import decode_line
from creditflow.wrappers.records.trajectory import Trajectory, Turn, is_number

__all__ = ["Played", "make_group", "plain_trajectory", "read_record"]

Played = tuple[Trajectory, Mapping[str, Any]]  # an episode and its task's payload


def read_record(text: Any, name: str) -> Played:
    """The episode of a record, under another name.

    Raises:
        TrajectoryError: there is no record, or it is damaged.
    """
    if not isinstance(text, str) or not text:
        raise TrajectoryError(
            f"episode {name!r} has no record under {FIELD!r}, but {type(text).__name__}: play it in a creditflow "
            "environment, or say how its turns are read"
        )
    trajectory, task = decode_line(text, ())
    return replace(trajectory, trajectory_id=name), task or {}


def plain_trajectory(
    name: str,
    *,
    task_id: str,
    states: Sequence[str],
    actions: Sequence[str],
    rewards: Sequence[float],
    success: bool,
    score: float | None = None,
) -> Trajectory:
    """An episode that was played elsewhere.

    Args:
        name: of the episode.
        task_id: of its task.
        states: T or T+1 texts: what identifies the state before each turn, and the final one. Equal texts mean equal states;
            without the final one the episode ends in a state of its own.
        actions: T texts.
        rewards: T numbers.
        success: whether the task was solved.
        score: graded outcome in [0, 1]; default: the success.

    Raises:
        TrajectoryError: lengths that do not fit, or a reward that is not a finite number.
    """
    n = len(actions)
    if not n or len(states) not in (n, n + 1) or len(rewards) != n:
        raise TrajectoryError(
            f"episode {name!r}: {n} actions need {n} or {n + 1} states and {n} rewards (and at least one turn), got "
            f"{len(states)} states and {len(rewards)} rewards"
        )
    for t, reward in enumerate(rewards):
        if not is_number(reward):
            raise TrajectoryError(f"episode {name!r}: turn {t}: reward must be finite, got {short_repr(reward)}")
    keys = [content_key(state, f"the state before turn {t}") for t, state in enumerate(states)]
    keys = keys if len(keys) > n else [*keys, f"{name} #end"]
    turns = tuple(
        Turn(keys[t], actions[t], keys[t + 1], float(rewards[t]), text_key=states[t], observation=states[t])
        for t in range(n)
    )
    return Trajectory(
        name,
        task_id,
        task_id,
        turns,
        success,
        float(success) if score is None else score,
        "success" if success else "failed",
        keys[-1],
        states[n] if len(states) > n else "",
    )


def make_group(name: str, played: Sequence[Played], *, alone: Literal["refuse", "keep"] = "refuse") -> Group:
    """The group of these episodes of one task, in their order.

    Args:
        name: of the group.
        played: episodes and payloads.
        alone: a group of one has nothing to compare with: "refuse" it, or "keep" it.

    Raises:
        TrajectoryError: no episode, a single one, episodes of several tasks, or a damaged payload.
    """
    if len(played) < (2 if alone == "refuse" else 1):
        raise TrajectoryError(
            f"group {name!r} has {len(played)} episode{'s' * (len(played) != 1)}: credit compares episodes of one task; "
            "sample at least two per task, and compute credit where whole groups are"
        )
    task: dict[str, Any] = {}
    for trajectory, one in played:
        seen = one.get("documents", {})
        if not isinstance(seen, Mapping):
            raise TrajectoryError(
                f"episode {trajectory.trajectory_id!r}: 'documents' of its task must be an object, got {short_repr(seen)}"
            )
        documents = {**task.get("documents", {}), **seen}
        task = {**one, "documents": documents} if documents else dict(one)
    return Group(tuple(replace(one, group_id=name, replica=i) for i, (one, _) in enumerate(played)), task)
