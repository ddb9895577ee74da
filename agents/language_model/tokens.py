"""The token record of a whole episode, put together from its turns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from creditflow.agents.base import TurnTokens
from creditflow.wrappers.records.tokens import Tokens

__all__ = ["join_tokens"]


def join_tokens(turns: Sequence[TurnTokens], version: str = "", *, ahead: Sequence[TurnTokens] = ()) -> Tokens:
    """The ``Tokens`` of an episode.

    Append-only: prompt and answer of every turn, one after the other. Windowed: the answers, with the prompts beside
    them. A turn that may not be learned from has no True in its mask.

    Args:
        turns: of the episode; of a branch its own.
        version: of the policy.
        ahead: the turns that a branch shares with its parent: context that is not learned from a second time.
    """
    windowed = bool(turns) and turns[0].windowed
    ids, mask, logprobs, offsets = [], [], [], [0]
    if ahead and not windowed:
        ids = [part for turn in ahead for part in (turn.prompt, turn.answer)]
        offsets = [sum(map(len, ids))]
        mask, logprobs = [np.zeros(offsets[0], np.bool_)], [np.zeros(offsets[0], np.float32)]
    for turn in turns:
        read = 0 if windowed else len(turn.prompt)
        if read:
            ids.append(turn.prompt)
        ids.append(turn.answer)
        mask.append(np.repeat([False, turn.learn], [read, len(turn.answer)]))
        logprobs.append(np.concatenate([np.zeros(read, np.float32), turn.logprobs]))
        offsets.append(offsets[-1] + read + len(turn.answer))
    return Tokens(
        ids=np.concatenate(ids) if ids else np.zeros(0, np.int32),
        mask=np.concatenate(mask) if mask else np.zeros(0, np.bool_),
        logprobs=np.concatenate(logprobs) if logprobs else np.zeros(0, np.float32),
        turn_offsets=np.array(offsets, np.int32),
        prompts=tuple(turn.prompt for turn in turns) if windowed else (),
        policy_version=version,
    )
