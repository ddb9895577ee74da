"""A scene: lines of marked texts, which the page shows by text nodes and class names of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

__all__ = ["KINDS", "MARKS", "MAX_SCENE", "Line", "Span", "marked", "tidy"]

# of a line: a heading, a paragraph, a row of several things, an item of a list, a second line of an item
KINDS: Final = ("head", "text", "row", "item", "more")
# of a span: plain, something to click, the same where the action names it, a name, a price, a query, an object, the golden
# answer, and entities by number
MARKS: Final = (
    "", "button", "picked", "name", "price", "query", "object", "answer", "entity0", "entity1", "entity2", "entity3", "entity4",
)  # fmt: skip
MAX_SCENE: Final = 20_000  # characters of an observation; longer ones are shown as plain text
MAX_NAMES: Final = 64


class Span(NamedTuple):
    """A text with a mark, one of ``MARKS``."""

    mark: str
    text: str


class Line(NamedTuple):
    """A line of a scene; ``kind`` is one of ``KINDS``."""

    kind: str
    spans: tuple[Span, ...]


def tidy(lines: Iterable[Line]) -> tuple[Line, ...]:
    """Return the lines without empty spans and without lines that have none."""
    stripped = []
    for line in lines:
        spans = tuple(span for span in line.spans if span.text.strip())
        if spans:
            stripped.append(Line(line.kind, spans))
    return tuple(stripped)


def marked(text: str, names: Mapping[str, str]) -> Iterator[Span]:
    """Split a text where names occur as whole words, whatever their case; the longest name wins.

    >>> list(marked("Ada met Ada Bell.", {"Ada": "entity0", "Ada Bell": "entity1"}))[2]
    Span(mark='entity1', text='Ada Bell')

    Args:
        text: any text.
        names: mark of each name; at most the first 64 are looked for.
    """
    looked_for = {name: mark for name, mark in list(names.items())[:MAX_NAMES] if name.strip()}
    chosen = {name.casefold(): mark for name, mark in looked_for.items()}
    if not chosen:
        yield Span("", text)
        return
    # both forms: folding makes "Straße" "strasse", which the pattern would not find in a text with "Straße"
    longest_first = sorted({*looked_for, *chosen}, key=lambda name: (-len(name), name))
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)", re.IGNORECASE)
    end = 0
    for match in pattern.finditer(text):
        if match.start() > end:
            yield Span("", text[end : match.start()])
        yield Span(chosen.get(match[0].casefold(), ""), match[0])
        end = match.end()
    if end < len(text):
        yield Span("", text[end:])
