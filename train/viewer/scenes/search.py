"""Search turns: the question's entities and its answers marked wherever they occur, passages as a list."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from creditflow.train.viewer.scenes.lines import Line, Span, marked, tidy

__all__ = ["search_names", "search_scene"]

COLOURS: Final = 5
_PASSAGE: Final = re.compile(
    r"(?:\[\d+\]|Doc \d+\(Title: ).{1,300}?(?::|\))\s|\d{1,3}\. \[.{1,300}?\](?:\(\S{1,1000}\))?(?:\s|$)"
)
_HEAD: Final = re.compile(r"Question:|Results for:|\d{1,5} (?:passages|pages) for '|Passages of the page '")
_TAG: Final = re.compile(r"</?(?:information|tool_response|search|answer|think|tool_call|access)>")


def search_names(task: Mapping[str, Any], found: Sequence[str] = ()) -> dict[str, str]:
    """Return the mark of every name: the question's entities with their aliases, its answers, and entities of turns.

    Args:
        task: a task's payload, from anywhere.
        found: names that the environment recorded in turns.
    """
    names: dict[str, str] = {}
    entities = task.get("entities")
    for number, entity in enumerate(entities if isinstance(entities, (list, tuple)) else ()):
        entry = entity if isinstance(entity, Mapping) else {"name": entity}
        aliases = entry.get("aliases")
        for name in (entry.get("name"), *(aliases if isinstance(aliases, (list, tuple)) else ())):
            if isinstance(name, str) and 0 < len(name) <= 200:
                names.setdefault(name, f"entity{number % COLOURS}")
    answers = task.get("answers")
    for answer in answers if isinstance(answers, (list, tuple)) else ():
        if isinstance(answer, str) and 0 < len(answer) <= 200:
            names[answer] = "answer"
    for name in found:
        if 0 < len(name) <= 200:
            names.setdefault(name, f"entity{len(names) % COLOURS}")
    return names


def search_scene(observation: str, names: Mapping[str, str], queries: Sequence[str]) -> tuple[Line, ...]:
    """Return the scene of a question or of results.

    Args:
        observation: the text.
        names: see ``search_names``.
        queries: the queries that this turn's action makes.
    """
    lines = []
    for text in _TAG.sub("\n", observation).split("\n"):
        if _HEAD.match(text):
            lines.append(Line("head", tuple(marked(text, names))))
            continue
        title = _PASSAGE.match(text)
        if title is None:
            lines.append(Line("text", tuple(marked(text, names))))
        else:
            lines.append(Line("item", (Span("name", title[0]), *marked(text[title.end() :], names))))
    if queries:
        lines.append(Line("row", (Span("", "searches for"), *(Span("query", query) for query in queries[:20]))))
    return tidy(lines)
