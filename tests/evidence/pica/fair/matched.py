"""Matched turns: in one state a call that the oracle recommends, and another one that follows another relation to an entity of equal recency.

Two calls have equal recency if they use the same tool and their names were first and last read, and first and last acted on, in the same turns.
Whatever reads nothing but recency, the turn's number and the history gives both calls of a pair the same score, so its AUC over pairs is
exactly 1/2. Both names were read in sentences that state a relation which questions ask for (not in one of the many that state none: those are
recognised without reading the question). What differs is which relation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from evidence.pica.fair.mentions import acted_name, mention

from creditflow.wrappers.records.trajectory import Turn

__all__ = ["Pair", "Recency", "matched_pair", "recency"]


class Recency(NamedTuple):
    """When a call's name occurred; −1 for never.

    Attributes:
        tool: "search", "visit" or "answer".
        first_read, last_read: turns (from 0) whose observation mentions it.
        first_acted, last_acted: turns whose action names it.
        whole: whether the call is the question itself.
    """

    tool: str
    first_read: int
    last_read: int
    first_acted: int
    last_acted: int
    whole: bool


class Pair(NamedTuple):
    """Two calls in one state.

    Attributes:
        right, wrong: texts of the recommended call and of the other one.
        recency: of both.
    """

    right: str
    wrong: str
    recency: Recency


def recency(action: str, observations: Sequence[str], actions: Sequence[str]) -> Recency:
    """The recency of a call in a state.

    Args:
        action: the call.
        observations: what was read so far, the present observation last.
        actions: earlier actions.

    >>> recency("search: Elm", ["Where is Elm?", "Elm lies on the Ash."], ["search: Elm"])
    Recency(tool='search', first_read=0, last_read=1, first_acted=0, last_acted=0, whole=False)
    """
    name = acted_name(action)
    wanted = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)", re.IGNORECASE)
    read = [t for t, text in enumerate(observations) if wanted.search(text)]
    acted = [t for t, text in enumerate(actions) if acted_name(text).lower() == name.lower()]
    whole = name.endswith("?") and bool(observations) and name in observations[0]
    return Recency(action.partition(":")[0], *_ends(read), *_ends(acted), whole)


def _ends(turns: Sequence[int]) -> tuple[int, int]:
    return (turns[0], turns[-1]) if turns else (-1, -1)


def matched_pair(
    observations: Sequence[str],
    actions: Sequence[str],
    admissible: Sequence[str],
    optimal: Sequence[str],
    stated: Mapping[str, frozenset[str]],
    rng: np.random.Generator,
) -> Pair | None:
    """A random pair of a state; None if no other call is as recent as a recommended one, or both were read in the same sentence.

    Args:
        observations, actions: as for ``recency``.
        admissible: the listed actions.
        optimal: those that begin a shortest plan.
        stated: by title the names, in lower case, to which its article states a relation.
        rng: source of randomness.
    """
    said = {text: mention(acted_name(text), observations) for text in admissible if not text.startswith("answer:")}
    tools = [text for text, read in said.items() if acted_name(text).lower() in stated.get(read.partition(": ")[0], ())]
    of = {text: recency(text, observations, actions) for text in tools}
    pairs = [
        (right, other)
        for right in sorted(set(optimal) & set(tools))
        for other in sorted(set(tools) - set(optimal))
        if of[other] == of[right] and said[other] != said[right]
    ]
    if not pairs:
        return None
    right, wrong = pairs[int(rng.integers(len(pairs)))]
    return Pair(right, wrong, of[right])


def with_action(turns: Sequence[Turn], observation: str, action: str, info: dict[str, Any]) -> tuple[Turn, ...]:
    """The turns so far and one more, which takes ``action`` on ``observation``; its result is unknown."""
    return (*turns, Turn(info["state_key"], action, "", observation=observation, text_key=info["text_key"]))
