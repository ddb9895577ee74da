"""Tool-call formats: plain lines, Search-R1's tags (and PiCA's warnings), JSON tool calls.

A dialect parses a call, writes one, and frames a tool result. Texts from the corpus are escaped before they are framed,
so that no passage can close a block or open another (see ``escaping``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from creditflow.envs.errors import check_name
from creditflow.envs.wikisearch.actions import Call, Parse, parse_plain, parse_tags, parse_tool_call
from creditflow.envs.wikisearch.render import escape_protocol_tags, one_line
from creditflow.envs.wikisearch.retrieval.base import Passage, site_url

__all__ = ["DIALECTS", "Browse", "Dialect", "Plain", "SearchR1", "ToolCalls", "dialect", "doc_lines", "quoted_query"]

# protocol text of Search-R1 and PiCA, byte for byte (spaces included), as models were trained on it
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


# the headings that repeat a query: those of ``Plain``, ``ToolCalls`` and ``Browse``, and of Tongyi's tool, whose logs are read too
_HEADING: Final = re.compile(
    r"Results for: (?P<plain>.*)|\d+ (?:passages|pages) for '(?P<listed>.*)'|A Google search for '(?P<tongyi>.*)' found \d+ results:"
)


def quoted_query(line: str) -> str:
    """The query that a heading of results repeats, as written there; "" if the line is not such a heading.

    >>> quoted_query("Results for: Nolan"), quoted_query("Nolan, a director")
    ('Nolan', '')

    The tools of Search-R1 and PiCA do not repeat the query.
    """
    match = _HEADING.fullmatch(line)
    return next(filter(None, match.groups()), "") if match else ""


class Dialect(Protocol):
    """A format of calls and results.

    Attributes:
        name: the value of the environment's argument ``dialect``.
        many: whether a call may carry several queries or pages.
    """

    name: str
    many: bool

    def parse(self, text: str) -> Parse:
        """The call in an agent's text."""
        ...

    def write(self, call: Call) -> str:
        """The shortest text that ``parse`` parses as this call."""
        ...

    def question(self, text: str) -> str:
        """The first observation: the question."""
        ...

    def results(self, queries: Sequence[str], found: Sequence[Sequence[Passage]]) -> str:
        """A search result, one list of passages per query."""
        ...

    def pages(self, names: Sequence[str], found: Sequence[Sequence[Passage]]) -> str:
        """The result of a visit, one list of passages per page."""
        ...

    def invalid(self, reason: str) -> str:
        """The message after an invalid call."""
        ...

    def limit(self, reason: str) -> str:
        """The notice that only an answer is possible from here on."""
        ...


def doc_lines(passages: Sequence[tuple[str, str]]) -> str:
    """Search-R1's list of (title, text): ``Doc 1(Title: …) …``, one line each."""
    return "".join(f"Doc {i}(Title: {title}) {text}\n" for i, (title, text) in enumerate(passages, 1))


def _heading(text: str) -> str:
    return one_line(escape_protocol_tags(text))


def _escaped(passages: Sequence[Passage]) -> list[tuple[str, str]]:
    return [(_heading(p.title), escape_protocol_tags(p.text)) for p in passages]


class Plain:
    """Lines: ``search: a | b``, ``visit: page``, ``answer: text``; results as numbered paragraphs."""

    name = "plain"
    many = True

    def parse(self, text: str) -> Parse:
        """The call on the one line that has one."""
        return parse_plain(text)

    def write(self, call: Call) -> str:
        """``tool: items``."""
        return f"{call.tool}: {' | '.join(call.items)}"

    def question(self, text: str) -> str:
        """The question after a label."""
        return f"Question: {escape_protocol_tags(text)}"

    def results(self, queries: Sequence[str], found: Sequence[Sequence[Passage]]) -> str:
        """A heading per query, a numbered paragraph per passage."""
        return self._sections("Results for", queries, found)

    def pages(self, names: Sequence[str], found: Sequence[Sequence[Passage]]) -> str:
        """A heading per page, a numbered paragraph per passage."""
        return self._sections("Page", names, found)

    def _sections(self, label: str, names: Sequence[str], found: Sequence[Sequence[Passage]]) -> str:
        sections = []
        for name, passages in zip(names, found, strict=True):
            lines = [f"[{i}] {title}: {text}" for i, (title, text) in enumerate(_escaped(passages), 1)]
            sections.append("\n".join([f"{label}: {_heading(name)}", *(lines or ["nothing found"])]))
        return "\n\n".join(sections)

    def invalid(self, reason: str) -> str:
        """The reason after a label."""
        return f"Refused: {reason}"

    def limit(self, reason: str) -> str:
        """A line of its own."""
        return f"\n\nNote: {reason}"


class SearchR1:
    """Tags: ``<search>``, ``<answer>``, results in ``<information>``; ``<access>`` opens a page, as in ASearcher.

    Args:
        warnings: PiCA's variant: errors and the limit stand in ``<warning>``; Search-R1 announces no limit.
    """

    many = False

    def __init__(self, warnings: bool = False) -> None:
        self.warnings = warnings
        self.name = "pica" if warnings else "search_r1"

    def parse(self, text: str) -> Parse:
        """The call in the first block."""
        return parse_tags(text)

    def write(self, call: Call) -> str:
        """The call in one block."""
        tag = "access" if call.tool == "visit" else call.tool
        return f"<{tag}> {call.items[0]} </{tag}>"

    def question(self, text: str) -> str:
        """The question after a label."""
        return f"Question: {escape_protocol_tags(text)}\n"

    def results(self, queries: Sequence[str], found: Sequence[Sequence[Passage]]) -> str:  # noqa: ARG002 - the protocol does not repeat queries
        """All passages in an information block."""
        return self.information(doc_lines([pair for passages in found for pair in _escaped(passages)]))

    def pages(self, names: Sequence[str], found: Sequence[Sequence[Passage]]) -> str:
        """As ``results``."""
        return self.results(names, found)

    def information(self, text: str) -> str:
        """The information block around a text."""
        return f"\n\n<information>{text.strip()}</information>\n\n"

    def invalid(self, reason: str = "") -> str:  # noqa: ARG002 - the protocol has one text for all reasons
        """The published text."""
        return f"\n<warning> {_R1_INVALID} </warning>\n" if self.warnings else f"\n{_R1_INVALID}\n"

    def limit(self, reason: str = "") -> str:  # noqa: ARG002 - the protocol has one text for all reasons
        """The published text of PiCA; nothing for Search-R1."""
        return _PICA_LIMIT if self.warnings else ""


class ToolCalls:
    """JSON in ``<tool_call>``, results in ``<tool_response>``, the answer in ``<answer>``."""

    name = "tool_call"
    many = True

    def parse(self, text: str) -> Parse:
        """The call in the one block."""
        return parse_tool_call(text)

    def write(self, call: Call) -> str:
        """The call in one block."""
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
        """Lists under their query, separated by rules."""
        headings = [
            f"{len(passages)} passages for '{_heading(query)}'" for query, passages in zip(queries, found, strict=True)
        ]
        return self._framed(headings, found)

    def pages(self, names: Sequence[str], found: Sequence[Sequence[Passage]]) -> str:
        """Lists under their page, separated by rules."""
        return self._framed([f"Passages of the page '{_heading(name)}'" for name in names], found)

    def _framed(self, headings: Sequence[str], found: Sequence[Sequence[Passage]]) -> str:
        sections = []
        for heading, passages in zip(headings, found, strict=True):
            items = (f"\n\n{i}. [{title}]\n{text}" for i, (title, text) in enumerate(_escaped(passages), 1))
            sections.append(heading + "".join(items))
        return self._response(sections)

    def _response(self, sections: Sequence[str]) -> str:
        return "<tool_response>\n" + "\n=======\n".join(sections) + "\n</tool_response>"

    def invalid(self, reason: str) -> str:
        """The reason as an error of the tool."""
        return f"<tool_response>\nerror: {escape_protocol_tags(reason)}\n</tool_response>"

    def limit(self, reason: str) -> str:
        """A line after the response."""
        return f"\nNote: {reason}"


class Browse(ToolCalls):
    """The same calls with URLs: a search of a site lists pages and the beginnings of passages, and a visit has a goal.

    Where nothing opens pages, a search lists passages with the URLs of their pages.
    """

    name = "browse"

    def results(self, queries: Sequence[str], found: Sequence[Sequence[Passage]]) -> str:
        """Links with a line of text, under their query, separated by rules."""
        sections = []
        for query, entries in zip(queries, found, strict=True):
            items = (
                f"\n\n{i}. [{title}]({_url(entry)})\n{text}"
                for i, (entry, (title, text)) in enumerate(zip(entries, _escaped(entries), strict=True), 1)
            )
            sections.append(f"{len(entries)} pages for '{_heading(query)}'" + "".join(items))
        return self._response(sections)


def _url(entry: Passage) -> str:
    """Where an entry leads, or else the URL of a passage's page, which servers often use as the page's id."""
    return entry.url or (entry.page if entry.page.startswith(("http://", "https://")) else site_url(entry.page))


DIALECTS: Final[Mapping[str, Dialect]] = {
    "plain": Plain(),
    "search_r1": SearchR1(),
    "pica": SearchR1(warnings=True),
    "tool_call": ToolCalls(),
    "browse": Browse(),
}


def dialect(name: str) -> Dialect:
    """The dialect with this name.

    Raises:
        ConfigError: no such dialect.
    """
    check_name("dialect", name, DIALECTS)
    return DIALECTS[name]
