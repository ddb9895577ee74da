"""ALFWorld's sentences, with the task as heading and its things (``cabinet 3``) marked; those that the action names apart."""

from __future__ import annotations

import re
from typing import Final

from creditflow.train.viewer.scenes.lines import Line, Span, marked, tidy

__all__ = ["alfworld_scene"]

_THING: Final = re.compile(r"\b[a-z]+ \d{1,3}\b")
_TASK: Final = re.compile(r"\s*Your task is to:")


def alfworld_scene(observation: str, action: str) -> tuple[Line, ...]:
    """Return the scene of an observation.

    Args:
        observation: the text.
        action: the action taken after it.
    """
    picked = set(_THING.findall(action.casefold()))
    lines = []
    for paragraph in observation.split("\n"):
        seen = {thing: "picked" if thing in picked else "object" for thing in _THING.findall(paragraph)}
        kind = "head" if _TASK.match(paragraph) else "text"
        if not paragraph.startswith("-= "):  # the engine's greeting
            lines.append(Line(kind, tuple(_spans(paragraph, seen))))
    return tidy(lines)


def _spans(paragraph: str, seen: dict[str, str]) -> list[Span]:
    """Mark the things; more than a few dozen by one pattern each would be slow, so they are found by the general one."""
    if len(seen) <= 40:
        return list(marked(paragraph, seen))
    spans, end = [], 0
    for match in _THING.finditer(paragraph):
        spans += [Span("", paragraph[end : match.start()]), Span(seen[match[0]], match[0])]
        end = match.end()
    return [*spans, Span("", paragraph[end:])]
