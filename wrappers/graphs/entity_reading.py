"""The entities mentioned in the thoughts and observations of a trajectory, turn by turn.

A *thought* is the text between thinking tags, as the grammar of a turn has it (``envs/wikisearch/actions.py``). For models
that write no thinking tags, the kind "wide" takes the full response and removes calls, answers and tool results.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from creditflow.envs.text.entity_matching import MatchRule
from creditflow.envs.wikisearch.actions import is_tagged, tagged_thought
from creditflow.envs.wikisearch.protocol.dialects import quoted_query
from creditflow.envs.wikisearch.render import escape_protocol_tags, one_line
from creditflow.wrappers.graphs.entity_graph import EntityGraph
from creditflow.wrappers.records.trajectory import Turn

__all__ = ["EntityProgress", "EntityReader", "Observations", "Thoughts", "strip_query_echo", "thought_text"]

Thoughts = Literal["tags", "wide", "recorded"]
Observations = Literal["text", "entities"]

_TAGS: Final = "search|access|visit|answer|action|tool_call|tool_response|information|warning|observation"
# an unclosed block extends to the end of the text: it may be a truncated call
_BLOCK: Final = re.compile(rf"<({_TAGS})>.*?(?:</\1>|\Z)", re.DOTALL)
_CALL_LINE: Final = re.compile(r"^[ \t]*(?:search|visit|answer)[ \t]*:.*$", re.IGNORECASE | re.MULTILINE)
_THINK: Final = re.compile(r"</?think>")


def _outside_calls(text: str) -> str:
    if "<" in text:
        text = _THINK.sub(" ", _BLOCK.sub(" ", text))
    return _CALL_LINE.sub(" ", text) if ":" in text else text


def thought_text(thought: str, response: str, action: str, kind: Thoughts = "tags") -> str:
    """Return the thought of a turn.

    >>> thought_text("", "<think>It was Nolan.</think> <search>Nolan birthplace</search> London", "Nolan birthplace")
    'It was Nolan.'
    >>> thought_text("", "It was Nolan. <search>Nolan birthplace</search>", "Nolan birthplace", "wide").strip()
    'It was Nolan.'

    Args:
        thought, response, action: fields of the turn.
        kind: "tags" is the text between thinking tags (``tagged_thought``; in a dialect without tags the recorded thought);
            "recorded" is the recorded thought; "wide" adds the response outside calls and answers or, if neither was
            recorded, takes the action outside them.
    """
    if kind == "tags":
        written = next((text for text in (response, action) if is_tagged(text)), "")
        return tagged_thought(written, thought) if written else thought
    if kind == "recorded":
        return thought
    if response:
        outside = _outside_calls(response)
        return outside if thought in outside else f"{thought}\n{outside}"
    return thought or _outside_calls(action)


def strip_query_echo(text: str, queries: Iterable[str]) -> str:
    r"""Remove from an observation the headings that repeat the queries: a query is not evidence.

    >>> strip_query_echo("Results for: Nolan\n[1] Inception: a film by Nolan", ["Nolan"])
    '[1] Inception: a film by Nolan'

    Args:
        text: the observation.
        queries: queries of the turn. Headings that a tool writes above the results of one of them (``quoted_query``) are
            removed; a passage that contains a query stays, however short.
    """
    repeated = {one_line(escape_protocol_tags(query)) for query in queries} - {""}
    if not any(query in text for query in repeated):
        return text
    return "\n".join(line for line in text.split("\n") if quoted_query(line) not in repeated)


class EntityReader:
    """Reader of turns that finds the entities of a graph in their texts.

    Args:
        graph: the entities to match.
        rule: when a text mentions an entity.
        aliases: also match other written forms.
        thoughts: kind of ``thought_text``.
        observations: source of the entities observed after a turn: the "text" of the next observation (see
            ``strip_query_echo``), or the ``entities`` that the environment recorded with the turn. The observation after
            the last turn is not logged: there it is always the latter.
    """

    def __init__(
        self,
        graph: EntityGraph,
        *,
        rule: MatchRule = "normalized",
        aliases: bool = True,
        thoughts: Thoughts = "tags",
        observations: Observations = "text",
    ) -> None:
        self.graph, self.thoughts, self.observations = graph, thoughts, observations
        self.matcher = graph.matcher(rule, aliases=aliases)
        self._cache: dict[str, tuple[int, ...]] = {}  # branches repeat the texts of their prefix

    def found(self, text: str) -> tuple[int, ...]:
        """Return the indices of the entities that a text mentions, ascending."""
        entities = self._cache.get(text)
        if entities is None:
            entities = self._cache[text] = self.matcher.found(text)
        return entities

    def thought(self, turn: Turn) -> str:
        """Return the turn's thought."""
        return thought_text(turn.thought, turn.response, turn.action, self.thoughts)

    def observed(self, text: str, queries: Iterable[str]) -> tuple[int, ...]:
        """Return the indices of the entities in the observation returned for these queries."""
        return self.found(strip_query_echo(text, queries))

    def recorded(self, entities: Iterable[str]) -> tuple[int, ...]:
        """Return the indices of recorded entities, without those of other graphs and unmatchable ones."""
        number_of = self.graph.number
        return tuple(
            sorted({number_of[name] for name in entities if name in number_of}.difference(self.matcher.unmatchable))
        )

    @property
    def unmatchable(self) -> tuple[str, ...]:
        """Entities that no text can mention under this rule; they are never rewarded or counted."""
        return tuple(self.graph.names[number] for number in self.matcher.unmatchable)

    @property
    def countable(self) -> int:
        """Number of matchable entities."""
        return len(self.graph) - len(self.matcher.unmatchable)

    def shown(self, turns: Sequence[Turn]) -> list[tuple[int, ...]]:
        """Return, for each turn, the entities in the observation after its action."""
        texts: list[str | None] = [turn.observation for turn in turns[1:]] if self.observations == "text" else []
        texts += [None] * (len(turns) - len(texts))
        return [
            self.recorded(turn.entities) if text is None else self.observed(text, turn.queries)
            for turn, text in zip(turns, texts, strict=True)
        ]


@dataclass(slots=True)
class EntityProgress:
    """The entities seen and cited so far in one episode (GDCR's O and T).

    >>> progress = EntityProgress()
    >>> progress.step(named=(1,), shown=(1, 2))  # a mention before the entity was seen does not count
    ((), (1, 2))
    >>> progress.step(named=(1, 2), shown=(2,))
    ((1, 2), ())

    Attributes:
        seen: entities in observations.
        cited: entities mentioned in a thought after they were seen.
    """

    seen: set[int] = field(default_factory=set)
    cited: set[int] = field(default_factory=set)

    def step(self, named: Iterable[int], shown: Iterable[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Add one turn: first its thought, then its observation.

        Returns:
            Newly cited entities, and newly seen ones.
        """
        cited = tuple(v for v in named if v in self.seen and v not in self.cited)
        self.cited.update(cited)
        seen = tuple(v for v in shown if v not in self.seen)
        self.seen.update(seen)
        return cited, seen
