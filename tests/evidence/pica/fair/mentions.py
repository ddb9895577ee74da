"""The words in which an agent read the name that it acts on: what the models of the fair test read of an episode.

A turn's text is the sentence that mentioned its name last, and the action. A page of 120 words is so shortened to the fifteen that say how the
name is related to the page; no word is replaced. The result of an action is no part of its turn's text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Turn

__all__ = ["acted_name", "mention", "with_mentions"]

_LINE: Final = re.compile(r"^\[\d+\] ([^:\n]*): ")
_SENTENCE: Final = re.compile(r"(?<=[a-z0-9)][.?!]) (?=[A-Z0-9])")
_HEADERS: Final = ("Results for: ", "Page: ", "Note: ")
WHOLE: Final = "the question itself"


def acted_name(action: str) -> str:
    """What an action names.

    >>> acted_name("search: Elm")
    'Elm'
    """
    return action.partition(": ")[2]


def sentences(observation: str) -> list[tuple[str, str]]:
    r"""The sentences of an observation, each with the title of its passage; headers are left out.

    >>> sentences("Page: Elm\n[1] Elm: Elm is a town. It was built by Ann.")
    [('Elm', 'Elm is a town.'), ('Elm', 'It was built by Ann.')]
    """
    found = []
    for line in observation.split("\n"):
        if line.startswith(_HEADERS):
            continue
        title = match[1] if (match := _LINE.match(line)) else ""
        found += [(title, part) for part in _SENTENCE.split(_LINE.sub("", line)) if part]
    return found


def mention(name: str, observations: Sequence[str]) -> str:
    """The first sentence of the last observation that mentions a name, as "title: sentence"; the title alone where only titles do.

    Args:
        name: a name, or the question.
        observations: what was read, in order; the first is the question.
    """
    wanted = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)", re.IGNORECASE)
    if observations and name in observations[0] and name.endswith("?"):
        return WHOLE
    for observation in reversed(observations):
        for title, sentence in sentences(observation):
            if wanted.search(sentence):
                return f"{title}: {sentence}" if title else sentence
        if any(wanted.search(title) for title, _ in sentences(observation)):
            return f"{name}:"
    return ""


def with_mentions(group: Group) -> Group:
    """The group with every observation but the first replaced by the mention of what the turn's action names.

    The first observation is the question, followed by that turn's mention on a line of its own where there is one.
    """
    return replace(
        group, trajectories=tuple(replace(m, turns=condensed(m.turns), tokens=None) for m in group.trajectories)
    )


def condensed(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """The turns of one episode, from its first, with mentions in place of observations."""
    seen: list[str] = []
    shorter = []
    for t, turn in enumerate(turns):
        seen.append(turn.observation)
        text = mention(acted_name(turn.action), seen) or "unread"
        shorter.append(replace(turn, observation=turn.observation if t == 0 else text))
    return tuple(shorter)
