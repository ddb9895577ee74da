"""The languages in which agents and tools talk: plain lines, Search-R1's tags (and PiCA's warnings), JSON tool calls.

A dialect reads a call, writes one, and frames what a tool returned. Texts from the corpus are made harmless before
they are framed, so that no passage can close a block or open another (see ``escape_protocol_tags``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from creditflow.envs.errors import check_name
from creditflow.envs.wikisearch.actions import Call, Parse, parse_plain, parse_tags, parse_tool_call
from creditflow.envs.wikisearch.escaping import escape_protocol_tags, one_line
from creditflow.envs.wikisearch.retrieval.base import Passage

__all__ = ["DIALECTS", "Dialect", "Plain", "SearchR1", "ToolCalls", "dialect", "doc_lines", "quoted_query"]

# protocol text of Search-R1 and PiCA, byte for byte (spaces included): models trained there know it
_R1_INVALID: Final = (
    "My previous action is invalid. If I want to search, I should put the query between <search> and </search>. "
    "If I want to give the final answer, I should put the answer between <answer> and </answer>. Let me try again."
)
_GAP: Final = " " * 13
_PICA_LIMIT: Final = (
    "<warning> Now, I can no longer call <search></search> for external information."
    f"{_GAP}I must analyze and answer based on the existing information."
    f"{_GAP}Now let me make a final thought and give an answer. </warning>\n\n"
)


# the headings that repeat a query: those of ``Plain`` and ``ToolCalls``, and that of Tongyi's tool, whose logs are read too
_HEADING: Final = re.compile(
    r"Results for: (?P<plain>.*)|\d+ passages for '(?P<listed>.*)'|A Google search for '(?P<tongyi>.*)' found \d+ results:"
)


def quoted_query(line: str) -> str:
    """The query that a line of an observation repeats, as it is written there; "" if it is no heading of results.

    >>> quoted_query("Results for: Nolan"), quoted_query("Nolan, a director")
    ('Nolan', '')

    Search-R1's and PiCA's tools repeat no query.
    """
    match = _HEADING.fullmatch(line)
    return next(filter(None, match.groups()), "") if match else ""


class Dialect(Protocol):
    """One way to write calls and results.

    Attributes:
        name: as the environment's argument.
        many: whether a call may carry several queries or pages.
    """

    name: str
    many: bool

    def parse(self, text: str) -> Parse:
        """The call in an agent's text."""
        ...

    def write(self, call: Call) -> str:
        """The shortest text that ``parse`` reads as this call."""
        ...

    def question(self, text: str) -> str:
        """How the task is put."""
        ...

    def results(self, queries: Sequence[str], found: Sequence[Sequence[Passage]]) -> str:
        """What a search returned, one list of passages a query."""
        ...

    def pages(self, names: Sequence[str], found: Sequence[Sequence[Passage]]) -> str:
        """What a visit returned, one list of passages a page."""
        ...

    def invalid(self, reason: str) -> str:
        """What an agent is told whose call was refused."""
        ...

    def limit(self, reason: str) -> str:
        """Announces that only an answer is possible from here on."""
        ...


def doc_lines(passages: Sequence[tuple[str, str]]) -> str:
    """Search-R1's list of (title, text): ``Doc 1(Title: …) …`` and a newline each."""
    return "".join(f"Doc {i}(Title: {title}) {text}\n" for i, (title, text) in enumerate(passages, 1))


def _harmless(passages: Sequence[Passage]) -> list[tuple[str, str]]:
    return [(one_line(escape_protocol_tags(p.title)), escape_protocol_tags(p.text)) for p in passages]


class Plain:
    """Lines: ``search: a | b``, ``visit: page``, ``answer: text``; results as numbered paragraphs."""

    name = "plain"
    many = True

    def parse(self, text: str) -> Parse:
        """The one line that is a call."""
        return parse_plain(text)

    def write(self, call: Call) -> str:
        """``tool: items``."""
        return f"{call.tool}: {' | '.join(call.items)}"

    def question(self, text: str) -> str:
        """The question after a label."""
        return f"Question: {escape_protocol_tags(text)}"

    def results(self, queries: Sequence[str], found: Sequence[Sequence[Passage]]) -> str:
        """A heading a query, a numbered paragraph a passage."""
        return "\n\n".join(
            self._listed(f"Results for: {one_line(escape_protocol_tags(query))}", passages)
            for query, passages in zip(queries, found, strict=True)
        )

    def pages(self, names: Sequence[str], found: Sequence[Sequence[Passage]]) -> str:
        """A heading a page, a numbered paragraph a passage."""
        return "\n\n".join(
            self._listed(f"Page: {one_line(escape_protocol_tags(name))}", passages)
            for name, passages in zip(names, found, strict=True)
        )

    def _listed(self, heading: str, passages: Sequence[Passage]) -> str:
        lines = [f"[{i}] {title}: {text}" for i, (title, text) in enumerate(_harmless(passages), 1)]
        return "\n".join([heading, *(lines or ["nothing found"])])

    def invalid(self, reason: str) -> str:
        """The reason itself."""
        return f"Refused: {reason}"

    def limit(self, reason: str) -> str:
        """A line of its own."""
        return f"\n\nNote: {reason}"


class SearchR1:
    """Tags: ``<search>``, ``<answer>``, results in ``<information>``; ``<access>`` opens a page, as in ASearcher.

    Args:
        warnings: PiCA's variant: refusals and the limit stand in ``<warning>``; Search-R1 announces no limit.
    """

    many = False

    def __init__(self, warnings: bool = False) -> None:
        self.warnings = warnings
        self.name = "pica" if warnings else "search_r1"

    def parse(self, text: str) -> Parse:
        """The first block."""
        return parse_tags(text)

    def write(self, call: Call) -> str:
        """One block."""
        tag = "access" if call.tool == "visit" else call.tool
        return f"<{tag}> {call.items[0]} </{tag}>"

    def question(self, text: str) -> str:
        """The question after a label."""
        return f"Question: {escape_protocol_tags(text)}\n"

    def results(self, queries: Sequence[str], found: Sequence[Sequence[Passage]]) -> str:  # noqa: ARG002 - not echoed
        """An information block of all passages."""
        return self.information(doc_lines([pair for passages in found for pair in _harmless(passages)]))

    def pages(self, names: Sequence[str], found: Sequence[Sequence[Passage]]) -> str:
        """As ``results``."""
        return self.results(names, found)

    def information(self, text: str) -> str:
        """The block as the model reads it."""
        return f"\n\n<information>{text.strip()}</information>\n\n"

    def invalid(self, reason: str = "") -> str:  # noqa: ARG002 - the protocol has one text for all reasons
        """The published text."""
        return f"\n<warning> {_R1_INVALID} </warning>\n" if self.warnings else f"\n{_R1_INVALID}\n"

    def limit(self, reason: str = "") -> str:  # noqa: ARG002 - the protocol has one text for all reasons
        """The published text of PiCA; Search-R1 says nothing."""
        return _PICA_LIMIT if self.warnings else ""


class ToolCalls:
    """JSON in ``<tool_call>``, results in ``<tool_response>``, the answer in ``<answer>``."""

    name = "tool_call"
    many = True

    def parse(self, text: str) -> Parse:
        """The one block."""
        return parse_tool_call(text)

    def write(self, call: Call) -> str:
        """One block."""
        if call.tool == "answer":
            return f"<answer>{call.items[0]}</answer>"
        arguments: dict[str, object] = {"query" if call.tool == "search" else "url": list(call.items)}
        if call.goal:
            arguments["goal"] = call.goal
        body = {"name": call.tool, "arguments": arguments}
        return f"<tool_call>{json.dumps(body, ensure_ascii=False)}</tool_call>"

    def question(self, text: str) -> str:
        """The question itself."""
        return escape_protocol_tags(text)

    def results(self, queries: Sequence[str], found: Sequence[Sequence[Passage]]) -> str:
        """Lists headed by their query, between rules."""
        return self._framed(
            f"{len(passages)} passages for '{one_line(escape_protocol_tags(query))}'" + self._listed(passages)
            for query, passages in zip(queries, found, strict=True)
        )

    def pages(self, names: Sequence[str], found: Sequence[Sequence[Passage]]) -> str:
        """Lists headed by their page, between rules."""
        return self._framed(
            f"Passages of the page '{one_line(escape_protocol_tags(name))}'" + self._listed(passages)
            for name, passages in zip(names, found, strict=True)
        )

    def _listed(self, passages: Sequence[Passage]) -> str:
        return "".join(f"\n\n{i}. [{title}]\n{text}" for i, (title, text) in enumerate(_harmless(passages), 1))

    def _framed(self, parts: Iterable[str]) -> str:
        return "<tool_response>\n" + "\n=======\n".join(parts) + "\n</tool_response>"

    def invalid(self, reason: str) -> str:
        """An error as the tool's response."""
        return f"<tool_response>\nerror: {escape_protocol_tags(reason)}\n</tool_response>"

    def limit(self, reason: str) -> str:
        """A line after the response."""
        return f"\nNote: {reason}"


DIALECTS: Final[Mapping[str, Dialect]] = {
    "plain": Plain(),
    "search_r1": SearchR1(),
    "pica": SearchR1(warnings=True),
    "tool_call": ToolCalls(),
}


def dialect(name: str) -> Dialect:
    """The dialect of that name.

    Raises:
        ConfigError: no such dialect.
    """
    check_name("dialect", name, DIALECTS)
    return DIALECTS[name]
