"""What a language model had read before each turn of a recorded rollout: as text, or as the tokens that were sampled."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from creditflow.train.annotate.base import AnnotationError
from creditflow.train.rollout.replay import full_episode
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Trajectory, Turn

__all__ = ["completion_text", "text_histories", "token_histories"]

Encode = Callable[[str], NDArray[np.int32]]


def completion_text(turn: Turn) -> str:
    """What the agent wrote: its response or, if that was not recorded, its thought and action."""
    return turn.response or f"{turn.thought}\n{turn.action}"


def text_histories(group: Group, index: int, encode: Encode) -> Iterator[NDArray[np.int32]]:
    """The T + 1 histories before each of a trajectory's own T turns and after the last one: question, observations, completions.

    Raises:
        AnnotationError: the log has no texts.
    """
    turns = full_episode(group, index)
    if any(not turn.observation and not turn.response and not turn.thought for turn in turns):
        raise AnnotationError(
            f"trajectory {group.trajectories[index].trajectory_id!r} was recorded without texts; record them, or "
            "use --set history=tokens with the model that made the log"
        )
    question = group.task.get("question")
    history = [encode(question + "\n")] if isinstance(question, str) else []
    first = len(turns) - len(group.trajectories[index].turns)
    for t, turn in enumerate(turns):
        history.append(encode(turn.observation + "\n"))
        if t >= first:
            yield np.concatenate(history)
        history.append(encode(completion_text(turn) + "\n"))
    yield np.concatenate(history) if history else np.zeros(0, np.int32)


def token_histories(trajectory: Trajectory) -> Iterator[NDArray[np.int32]]:
    """The T + 1 histories as the tokens that the rollout sampled and read.

    Raises:
        AnnotationError: the rollout has turns but no tokens.
    """
    tokens = trajectory.tokens
    if tokens is None:
        if trajectory.turns:
            raise AnnotationError(f"trajectory {trajectory.trajectory_id!r} has no tokens; use --set history=text")
        yield np.zeros(0, np.int32)
        return
    for t, written in enumerate(tokens.written()):
        first = written[0] if len(written) else tokens.turn_offsets[t]
        yield tokens.prompts[t] if tokens.prompts else tokens.ids[:first]
    last = tokens.ids[tokens.turn_offsets[-2] :] if tokens.prompts else tokens.ids
    yield np.concatenate([tokens.prompts[-1], last]) if tokens.prompts else last
