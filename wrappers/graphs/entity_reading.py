"""Which entities a trajectory's texts name, turn by turn: in its thoughts, and in what it was shown.

A *thought* is what the model says outside its calls and its answer. Many models write no thinking tags at all, so the
wide reading takes the whole response and removes the calls, answers and tool results from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from creditflow.envs.text.entity_matching import MatchRule
from creditflow.envs.wikisearch.dialects import quoted_query
from creditflow.envs.wikisearch.escaping import escape_protocol_tags, one_line
from creditflow.wrappers.graphs.entity_graph import EntityGraph
from creditflow.wrappers.records.trajectory import Turn

__all__ = ["EntityProgress", "EntityReader", "Observations", "Thoughts", "strip_query_echo", "thought_text"]

Thoughts = Literal["wide", "recorded"]
Observations = Literal["text", "entities"]

_TAGS: Final = "search|access|visit|answer|action|tool_call|tool_response|information|warning|observation"
# a block that was never closed hides the rest of the text: it may be a call that was cut
_BLOCK: Final = re.compile(rf"<({_TAGS})>.*?(?:</\1>|\Z)", re.DOTALL)
_CALL_LINE: Final = re.compile(r"^[ \t]*(?:search|visit|answer)[ \t]*:.*$", re.IGNORECASE | re.MULTILINE)
_THINK: Final = re.compile(r"</?think>")


def _outside_calls(text: str) -> str:
    if "<" in text:
        text = _THINK.sub(" ", _BLOCK.sub(" ", text))
    return _CALL_LINE.sub(" ", text) if ":" in text else text


def thought_text(thought: str, response: str, action: str, kind: Thoughts = "wide") -> str:
    """What a turn's model text says outside calls and answers.

    >>> thought_text("", "It was Nolan. <search>Nolan birthplace</search>", "Nolan birthplace").strip()
    'It was Nolan.'

    Args:
        thought, response, action: of the turn.
        kind: "recorded" is the recorded thought; "wide" adds the response outside its blocks, or, where no response was
            recorded either, the action outside them.
    """
    if kind == "recorded":
        return thought
    if response:
        outside = _outside_calls(response)
        return outside if thought in outside else f"{thought}\n{outside}"
    return thought or _outside_calls(action)


def strip_query_echo(text: str, queries: Iterable[str]) -> str:
    r"""An observation without the headings that repeat what was searched for: a query is no evidence.

    >>> strip_query_echo("Results for: Nolan\n[1] Inception: a film by Nolan", ["Nolan"])
    '[1] Inception: a film by Nolan'

    Args:
        text: the observation.
        queries: of the turn. Lines go that a tool writes above the results of one of them (``quoted_query``); a passage
            that contains a query stays, however short.
    """
    repeated = {one_line(escape_protocol_tags(query)) for query in queries} - {""}
    if not any(query in text for query in repeated):
        return text
    return "\n".join(line for line in text.split("\n") if quoted_query(line) not in repeated)


class EntityReader:
    """Reads turns for the entities of one graph.

    Args:
        graph: what is looked for.
        rule: when a text names an entity.
        aliases: look for other written forms too.
        thoughts: see ``thought_text``.
        observations: what a turn showed: the "text" of the next observation (see ``strip_query_echo``), or the ``entities``
            that the environment recorded with the turn. No log holds the text after the last turn: there it is always
            the latter.
    """

    def __init__(
        self,
        graph: EntityGraph,
        *,
        rule: MatchRule = "normalized",
        aliases: bool = True,
        thoughts: Thoughts = "wide",
        observations: Observations = "text",
    ) -> None:
        self.graph, self.thoughts, self.observations = graph, thoughts, observations
        self.matcher = graph.matcher(rule, aliases=aliases)
        self._known: dict[str, tuple[int, ...]] = {}  # branches show the texts before their fork again

    def found(self, text: str) -> tuple[int, ...]:
        """Numbers of the entities that a text names, rising."""
        numbers = self._known.get(text)
        if numbers is None:
            numbers = self._known[text] = self.matcher.found(text)
        return numbers

    def thought(self, turn: Turn) -> str:
        """The turn's thought."""
        return thought_text(turn.thought, turn.response, turn.action, self.thoughts)

    def observed(self, text: str, queries: Iterable[str]) -> tuple[int, ...]:
        """Numbers of the entities in an observation that these queries brought up."""
        return self.found(strip_query_echo(text, queries))

    def recorded(self, entities: Iterable[str]) -> tuple[int, ...]:
        """Numbers of entities that an environment has named; those of other graphs, and unmatchable ones, are left out."""
        known = self.graph.number
        return tuple(sorted({known[name] for name in entities if name in known}.difference(self.matcher.unmatchable)))

    @property
    def unmatchable(self) -> tuple[str, ...]:
        """Entities that no text can name under this rule: they earn nothing, and count for nothing."""
        return tuple(self.graph.names[number] for number in self.matcher.unmatchable)

    @property
    def countable(self) -> int:
        """How many entities a text can name."""
        return len(self.graph) - len(self.matcher.unmatchable)

    def shown(self, turns: Sequence[Turn]) -> list[tuple[int, ...]]:
        """Per turn, the entities in what its action brought up."""
        texts: list[str | None] = [turn.observation for turn in turns[1:]] if self.observations == "text" else []
        texts += [None] * (len(turns) - len(texts))
        return [
            self.recorded(turn.entities) if text is None else self.observed(text, turn.queries)
            for turn, text in zip(turns, texts, strict=True)
        ]


@dataclass(slots=True)
class EntityProgress:
    """What one trajectory has seen and cited so far (GDCR's O and T), in the order in which things happen.

    >>> progress = EntityProgress()
    >>> progress.step(named=(1,), shown=(1, 2))  # naming before seeing earns nothing and uses nothing up
    ((), (1, 2))
    >>> progress.step(named=(1, 2), shown=(2,))
    ((1, 2), ())

    Attributes:
        seen: entities in observations.
        cited: entities named in a thought after they had been seen.
    """

    seen: set[int] = field(default_factory=set)
    cited: set[int] = field(default_factory=set)

    def step(self, named: Iterable[int], shown: Iterable[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Take one turn: first its thought, then its observation.

        Returns:
            entities newly cited, and newly seen.
        """
        cited = tuple(v for v in named if v in self.seen and v not in self.cited)
        self.cited.update(cited)
        seen = tuple(v for v in shown if v not in self.seen)
        self.seen.update(seen)
        return cited, seen
