"""Trajectories as token ids with the places where a success model reads: exact, because each part is encoded alone.

The text is what the agent saw and did, turn by turn: observation, action, observation, action, … Place 0 is the end of
the first observation, the question; place t is the end of turn t: of what its action returned ("result"), or of the
action itself ("action"), and always of the action for the last turn, whose result no log holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.text.plain_text import plain_text
from creditflow.train.annotate.success.names import by_origin
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Turn

__all__ = ["TEMPLATE_VERSION", "Encoded", "Encoder", "EpisodeTooLongError", "TextConfig", "rewriter"]

TEMPLATE_VERSION: Final = 1
VERBS: Final = ("search", "visit", "answer")  # stay whatever else does
_PROBE: Final = (("Question: which town?\n", "search: the town"), ("[1] Town: a place.", "answer: it"))


@dataclass(frozen=True, kw_only=True)
class TextConfig:
    """What a success model is shown.

    Attributes:
        read: "result" or "action", see above. The released model reads at the action.
        action: a turn's "action" as the environment took it, or the model's full "response", thoughts included.
        observation_tokens: an observation is cut after so many tokens; 0 for no cut.
        names: texts as they stand ("words"), or "origins": names by where they first stood, and of the other words only
            ``common_words`` (see ``success_names``): for models made from nothing.
        common_words: how many words, the most frequent of the training log, stay beside origins.
    """

    read: Literal["result", "action"] = "result"
    action: Literal["action", "response"] = "action"
    observation_tokens: int = 0
    names: Literal["words", "origins"] = "words"
    common_words: int = 15

    def __post_init__(self) -> None:
        if min(self.observation_tokens, self.common_words) < 0:
            raise ConfigError("text.observation_tokens and text.common_words must not be negative")


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """One episode with T turns.

    Attributes:
        ids: int32 (L,).
        places: int64 (T+1,), ascending positions in ``ids``; place t is read to judge turn t, place 0 the question.
        shared: of a branch, the turns that its ancestors own; its own turns end at the places behind ``shared``.
    """

    ids: NDArray[np.int32]
    places: NDArray[np.int64]
    shared: int = 0

    def __len__(self) -> int:
        return len(self.ids)


class EpisodeTooLongError(DataError):
    """An episode has more tokens than the model takes."""


def rewriter(config: TextConfig, words: Sequence[str]) -> Callable[[str], str]:
    """What is done to the texts of one episode, in order, before they become tokens; ``words`` as in ``Encoder``."""
    if config.names == "words":
        return str
    return by_origin(frozenset(words), frozenset((*words[: config.common_words], *VERBS)))


class Encoder:
    """Encodes episodes for one tokenizer; remembers texts, which recur.

    Args:
        tokenizer: of the model. With the role tokens of our own tokenizers parts are framed by them, else by new lines.
        config: what is shown.
        positions: the longest episode the model takes; 0 for no limit.
        words: where names are written by origin, the words that are none, the most frequent first.
    """

    def __init__(self, tokenizer: Any, config: TextConfig, positions: int = 0, words: Sequence[str] = ()) -> None:
        self.config, self.positions, self.words = config, positions, tuple(words)
        self.tokenizer = tokenizer
        self._known: dict[str, tuple[int, ...]] = {}
        vocabulary = tokenizer.get_vocab()
        roles = [vocabulary.get(f"<|{name}|>") for name in ("user", "assistant", "end")]
        # of observations and of actions: ids before and after
        self._frames: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
        if None in roles:
            line = self._text("\n")
            self._frames = ((), line), ((), line)
        else:
            user, assistant, end = (int(role) for role in roles)
            self._frames = ((user,), (end,)), ((assistant,), (end,))

    @property
    def digest(self) -> str:
        """Of the template: how a fixed episode is encoded. Another tokenizer or framing gives another digest."""
        turns = [Turn("s", action, "s", observation=text, response=action) for text, action in _PROBE]
        probe = self.encode(turns, "probe")
        data = repr((TEMPLATE_VERSION, self.config, self.words, probe.ids.tolist(), probe.places.tolist()))
        return blake2b(data.encode(), digest_size=8).hexdigest()

    def encode(self, turns: Sequence[Turn], name: str) -> Encoded:
        """One episode from its first turn.

        Raises:
            DataError: the log holds no observations or responses, or the episode is too long for the model.
        """
        ids: list[int] = []
        places: list[int] = []
        cut = self.config.observation_tokens or None
        last = len(turns) - 1
        written = rewriter(self.config, self.words)
        for t, turn in enumerate(turns):
            action = turn.response if self.config.action == "response" else turn.action
            silent = not action and turn.valid  # an agent that said nothing at all made an invalid turn
            missing = "observation" if not turn.observation else self.config.action if silent else ""
            if missing:
                raise DataError(
                    f"{name}, turn {t} has no {missing}: a success model reads texts; record the log with them"
                )
            ids += self._framed(0, self._text(written(turn.observation))[:cut])
            if t == 0 or self.config.read == "result":
                places.append(len(ids) - 1)
            ids += self._framed(1, self._text(written(action)))
            if t == last or self.config.read == "action":
                places.append(len(ids) - 1)
        if self.positions and len(ids) > self.positions:
            raise EpisodeTooLongError(
                f"{name} has {len(ids)} tokens, the success model takes {self.positions}: cut observations with "
                "text.observation_tokens, or train it with more positions"
            )
        return Encoded(np.array(ids, np.int32), np.array(places, np.int64))

    def encode_member(self, group: Group, index: int) -> Encoded:
        """A member of a group, a branch with the turns it shares. A member without turns has no places."""
        member = group.trajectories[index]
        shared = group.prefix(index) if member.turns else ()
        whole = self.encode((*shared, *member.turns), f"group {group.group_id!r}, trajectory {member.trajectory_id!r}")
        return Encoded(whole.ids, whole.places, len(shared))

    def _framed(self, role: int, ids: Sequence[int]) -> list[int]:
        before, after = self._frames[role]
        return [*before, *ids, *after]

    def _text(self, text: str) -> tuple[int, ...]:
        found = self._known.get(text)
        if found is None:
            if len(self._known) >= 65_536:
                self._known.clear()
            found = self._known[text] = tuple(self.tokenizer.encode(plain_text(text), add_special_tokens=False))
        return found
