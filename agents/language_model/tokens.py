"""The token record of an episode, assembled from its turns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from creditflow.agents.base import TurnTokens
from creditflow.wrappers.records.tokens import Tokens

__all__ = ["join_tokens"]


def join_tokens(turns: Sequence[TurnTokens], version: str = "", *, prefix: Sequence[TurnTokens] = ()) -> Tokens:
    """Join the tokens of an episode's turns.

    Append-only history: prompt and completion of every turn, one after the other. Windowed history: the completions,
    with the prompts beside them. A turn that is not in the loss has a mask of False.

    Args:
        turns: tokens of the episode's own turns.
        version: the policy's version.
        prefix: of a branch: the turns that it shares with its parent; they are context, masked in the loss.
    """
    windowed = bool(turns) and turns[0].windowed
    ids, mask, logprobs, offsets = [], [], [], [0]
    if prefix and not windowed:
        ids = [piece for turn in prefix for piece in (turn.prompt, turn.completion)]
        offsets = [sum(map(len, ids))]
        mask, logprobs = [np.zeros(offsets[0], np.bool_)], [np.zeros(offsets[0], np.float32)]
    for turn in turns:
        prompt_length = 0 if windowed else len(turn.prompt)
        if prompt_length:
            ids.append(turn.prompt)
        ids.append(turn.completion)
        mask.append(np.repeat([False, turn.in_loss], [prompt_length, len(turn.completion)]))
        logprobs.append(np.concatenate([np.zeros(prompt_length, np.float32), turn.logprobs]))
        offsets.append(offsets[-1] + prompt_length + len(turn.completion))
    pictures = [turn.pictures for turn in turns]
    if prefix and not windowed and pictures:
        pictures[0] = (*(picture for turn in prefix for picture in turn.pictures), *pictures[0])
    return Tokens(
        ids=np.concatenate(ids) if ids else np.zeros(0, np.int32),
        mask=np.concatenate(mask) if mask else np.zeros(0, np.bool_),
        logprobs=np.concatenate(logprobs) if logprobs else np.zeros(0, np.float32),
        turn_offsets=np.array(offsets, np.int32),
        prompts=tuple(turn.prompt for turn in turns) if windowed else (),
        policy_version=version,
        pictures=tuple(pictures) if any(pictures) else (),
    )
