"""Trajectories as token ids with the positions at which a success model is evaluated.

The text is the episode, turn by turn: observation, action, observation, action, … End 0 is the end of the first
observation (the question). End t is the end of turn t: of its action's result ("result") or of the action itself
("action"); for the last turn always of the action, because its result is in no log. Positions are exact, because each
part is encoded alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.language_model.text_ids import text_ids
from creditflow.envs.errors import ConfigError, DataError
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Turn

__all__ = ["Encoded", "Encoder", "EpisodeTooLongError", "TextConfig", "encoded"]


@dataclass(frozen=True, kw_only=True)
class TextConfig:
    """The input of a success model.

    Attributes:
        read: "result" or "action", see above. The released model is evaluated at the action.
        action: a turn's "action" as the environment took it, or the model's full "response", thoughts included.
        observation_tokens: observations are truncated to this many tokens; 0 for no limit.
    """

    read: Literal["result", "action"] = "result"
    action: Literal["action", "response"] = "action"
    observation_tokens: int = 0

    def __post_init__(self) -> None:
        if self.observation_tokens < 0:
            raise ConfigError(f"text.observation_tokens must not be negative, got {self.observation_tokens}")


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """One episode with T turns.

    Attributes:
        ids: int32 (L,).
        ends: int64 (T+1,), ascending positions in ``ids``: the end of the question, then of every turn.
        shared: number of turns that a branch shares with its ancestors; its own turns come after them.
    """

    ids: NDArray[np.int32]
    ends: NDArray[np.int64]
    shared: int = 0

    def __len__(self) -> int:
        return len(self.ids)


class EpisodeTooLongError(DataError):
    """An episode has more tokens than the model takes."""


def encoded(ids: Sequence[int], ends: Sequence[int], positions: int, name: str, shared: int = 0) -> Encoded:
    """An episode of these ids and ends.

    Raises:
        EpisodeTooLongError: it has more tokens than ``positions``, unless that is 0.
    """
    if positions and len(ids) > positions:
        raise EpisodeTooLongError(
            f"{name} has {len(ids)} tokens, the success model takes at most {positions}: truncate observations with "
            "text.observation_tokens, or train it with more positions"
        )
    return Encoded(np.array(ids, np.int32), np.array(ends, np.int64), shared)


class Encoder:
    """Encodes episodes for one tokenizer, with a cache of texts, because they recur.

    Args:
        tokenizer: tokenizer of the model. Parts are framed by its role tokens if it has ours, else end in a newline.
        config: what the input contains.
        positions: longest episode in tokens; 0 for no limit.
    """

    def __init__(self, tokenizer: Any, config: TextConfig, positions: int = 0) -> None:
        self.config, self.positions = config, positions
        self.tokenizer = tokenizer
        self._known: dict[str, tuple[int, ...]] = {}
        vocabulary = tokenizer.get_vocab()
        roles = [vocabulary.get(f"<|{name}|>") for name in ("user", "assistant", "end")]
        # ids before and after an observation, and before and after an action
        self._frames: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
        if None in roles:
            line = self._text("\n")
            self._frames = ((), line), ((), line)
        else:
            user, assistant, end = (int(role) for role in roles)
            self._frames = ((user,), (end,)), ((assistant,), (end,))

    def encode(self, turns: Sequence[Turn], name: str, shared: int = 0) -> Encoded:
        """One episode from its first turn, of which a branch shares the first ``shared`` with its ancestors.

        Raises:
            DataError: the log contains no observations or responses, or the episode is too long for the model.
        """
        ids: list[int] = []
        ends: list[int] = []
        limit = self.config.observation_tokens or None
        last = len(turns) - 1
        for t, turn in enumerate(turns):
            action = turn.response if self.config.action == "response" else turn.action
            no_action = not action and turn.valid  # an empty completion is an invalid turn
            missing: str = self.config.action if no_action else ""
            if not turn.observation:
                missing = "observation"
            if missing:
                raise DataError(
                    f"{name}, turn {t} has no {missing}: a success model needs texts; record the log with them"
                )
            ids += self._framed(0, self._text(turn.observation)[:limit])
            if t == 0 or self.config.read == "result":
                ends.append(len(ids) - 1)
            ids += self._framed(1, self._text(action))
            if t == last or self.config.read == "action":
                ends.append(len(ids) - 1)
        return encoded(ids, ends, self.positions, name, shared)

    def encode_member(self, group: Group, index: int) -> Encoded:
        """Encode a trajectory of a group; a branch with the turns it shares. Without turns there are no ends."""
        member = group.trajectories[index]
        turns = group.episodes[index] if member.turns else ()
        name = f"group {group.group_id!r}, trajectory {member.trajectory_id!r}"
        return self.encode(turns, name, len(turns) - len(member.turns))

    def _framed(self, role: int, ids: Sequence[int]) -> list[int]:
        before, after = self._frames[role]
        return [*before, *ids, *after]

    def _text(self, text: str) -> tuple[int, ...]:
        ids = self._known.get(text)
        if ids is None:
            if len(self._known) >= 65_536:
                self._known.clear()
            ids = self._known[text] = tuple(text_ids(self.tokenizer, [text])[0])
        return ids
