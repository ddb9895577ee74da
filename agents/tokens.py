"""The token record of a whole episode, put together from its turns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from creditflow.agents.base import TurnTokens
from creditflow.wrappers.tokens import Tokens

__all__ = ["join_tokens"]


def join_tokens(turns: Sequence[TurnTokens], version: str = "") -> Tokens:
    """The ``Tokens`` of an episode.

    Append-only: prompt and answer of every turn, one after the other. Windowed: the answers, with the prompts beside
    them. A turn that may not be learned from has no True in its mask.
    """
    windowed = bool(turns) and turns[0].windowed
    ids, mask, logprobs, offsets = [], [], [], [0]
    for turn in turns:
        ahead = 0 if windowed else len(turn.prompt)
        if ahead:
            ids.append(turn.prompt)
        ids.append(turn.answer)
        mask.append(np.repeat([False, turn.learn], [ahead, len(turn.answer)]))
        logprobs.append(np.concatenate([np.zeros(ahead, np.float32), turn.logprobs]))
        offsets.append(offsets[-1] + ahead + len(turn.answer))
    return Tokens(
        ids=np.concatenate(ids) if ids else np.zeros(0, np.int32),
        mask=np.concatenate(mask) if mask else np.zeros(0, np.bool_),
        logprobs=np.concatenate(logprobs) if logprobs else np.zeros(0, np.float32),
        turn_offsets=np.array(offsets, np.int32),
        prompts=tuple(turn.prompt for turn in turns) if windowed else (),
        policy_version=version,
    )
