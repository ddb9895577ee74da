"""The entity graph of a corpus: pages and names, what passages state about them, and which passage mentions what.

Built in two passes over a range of the corpus's rows; no text is kept. Nodes are compared by the package's rule for
mentions (``phrase_tokens``). A name that several pages have, or that two objects share, stays ambiguous: it links to each
of them, so a question through it does not have one answer.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError
from creditflow.envs.text.entity_matching import EntityMatcher, phrase_tokens
from creditflow.envs.text.plain_text import plain_text
from creditflow.envs.wikisearch.synthesis.markup import without_markup
from creditflow.envs.wikisearch.synthesis.relations import RELATIONS
from creditflow.envs.wikisearch.synthesis.statements import Definition, plain_title, read_statements

__all__ = ["CorpusGraph", "Node", "Row", "Statement", "build_graph"]

KeyT = TypeVar("KeyT", bound=Hashable)

MAX_FORM: Final = 120  # characters of a name
MAX_NODES: Final = 5_000_000
MAX_NAME_TOKENS: Final = 10


class Row(NamedTuple):
    """A passage as the graph reads it."""

    number: int
    title: str
    page: str
    text: str


class Statement(NamedTuple):
    """A fact, and the row of the passage that states it. Subject and object are numbers of nodes."""

    subject: int
    relation: str
    object: int
    row: int


@dataclass(slots=True)
class Node:
    """A page, a name without a page, or a year.

    Attributes:
        name: its name; of a page, the title.
        page: id of the page; "" without one.
        kind: class, from its definition or from the relation that it is the object of.
        definition: what its first sentence says; empty without one.
        row: the row that defines it; −1 without one.
    """

    name: str
    page: str = ""
    kind: str = "other"
    definition: Definition = field(default_factory=Definition)
    row: int = -1

    @property
    def forms(self) -> tuple[str, ...]:
        """Its written forms: the name, and a title without its final brackets."""
        return tuple(dict.fromkeys((self.name, plain_title(self.name)))) if self.page else (self.name,)

    @property
    def year(self) -> int | None:
        """The year of its definition: of appearance, birth or foundation."""
        return int(self.definition.years[0][1]) if self.definition.years else None


@dataclass(frozen=True, eq=False)
class CorpusGraph:
    """Nodes, statements and mentions.

    Attributes:
        nodes: all nodes.
        statements: distinct (subject, relation, object) triples, each with the first row that states it.
        mention_starts: int64 (rows + 1,): where the mentions of each row of the range begin.
        mention_nodes: int32 (mentions,): nodes that the row mentions, ascending within a row; its own page is among them.
        first_row: the first row of the range.
    """

    nodes: tuple[Node, ...]
    statements: tuple[Statement, ...]
    mention_starts: NDArray[np.int64]
    mention_nodes: NDArray[np.int32]
    first_row: int = 0

    @cached_property
    def outgoing(self) -> dict[tuple[int, str], tuple[int, ...]]:
        """(subject, relation) to statements, by number."""
        return _grouped((s.subject, s.relation) for s in self.statements)

    @cached_property
    def incoming(self) -> dict[tuple[int, str], tuple[int, ...]]:
        """(object, relation) to statements, by number."""
        return _grouped((s.object, s.relation) for s in self.statements)

    @cached_property
    def of_subject(self) -> dict[int, tuple[int, ...]]:
        """Subject to statements, by number."""
        return _grouped(s.subject for s in self.statements)

    @cached_property
    def of_object(self) -> dict[int, tuple[int, ...]]:
        """Object to statements, by number."""
        return _grouped(s.object for s in self.statements)

    @cached_property
    def by_relation(self) -> dict[str, tuple[int, ...]]:
        """Relation to statements, by number."""
        return _grouped(s.relation for s in self.statements)

    @cached_property
    def by_word(self) -> dict[str, tuple[int, ...]]:
        """A noun or a description of definitions to nodes."""
        numbers_of: dict[str, dict[int, None]] = defaultdict(dict)
        for number, node in enumerate(self.nodes):
            for word in (node.definition.noun, node.definition.description):
                numbers_of[word][number] = None
        return {word: tuple(numbers) for word, numbers in numbers_of.items()}

    @cached_property
    def by_form(self) -> dict[tuple[str, ...], tuple[int, ...]]:
        """Tokens of a written form to nodes: a full title's own pages, before those that share it without brackets."""
        numbers_of: dict[tuple[str, ...], dict[int, None]] = defaultdict(dict)
        for number, node in enumerate(self.nodes):
            for form in node.forms:
                numbers_of[phrase_tokens(form)][number] = None
        return {form: tuple(numbers) for form, numbers in numbers_of.items()}

    @cached_property
    def mentioned_in(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """The inverse of the mentions: starts (nodes + 1,), and rows of the range by node."""
        counts = np.bincount(self.mention_nodes, minlength=len(self.nodes))
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        lengths = np.diff(self.mention_starts)
        rows = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
        return starts, rows[np.argsort(self.mention_nodes, kind="stable")]

    def rows_with(self, node: int) -> NDArray[np.int64]:
        """The rows of the corpus that mention a node, ascending."""
        starts, rows = self.mentioned_in
        return rows[starts[node] : starts[node + 1]].astype(np.int64) + self.first_row


def _grouped(keys: Iterable[KeyT]) -> dict[KeyT, tuple[int, ...]]:
    numbers_of: dict[KeyT, list[int]] = defaultdict(list)
    for number, key in enumerate(keys):
        numbers_of[key].append(number)
    return {key: tuple(numbers) for key, numbers in numbers_of.items()}


def build_graph(rows: Callable[[], Iterable[Row]], first_row: int = 0) -> CorpusGraph:
    """Build the graph of a range of rows.

    Args:
        rows: returns the rows, numbered from ``first_row`` without gaps; called three times.
        first_row: number of the first one.

    Raises:
        ConfigError: more than ``MAX_NODES`` names.
    """
    nodes, pages = _pages(rows())
    titles: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for number, node in enumerate(nodes):
        for tokens in dict.fromkeys(phrase_tokens(form) for form in node.forms):
            titles[tokens].append(number)
    titles.pop((), None)
    statements = _Reader(nodes, pages, titles).read(rows())
    starts, mentions = _mentions(rows(), nodes, pages)
    return CorpusGraph(tuple(nodes), statements, starts, mentions, first_row)


def _pages(rows: Iterable[Row]) -> tuple[list[Node], dict[str, int]]:
    """A node for every page, in order of its first row."""
    nodes: list[Node] = []
    pages: dict[str, int] = {}
    for row in rows:
        if row.page not in pages:
            if len(nodes) == MAX_NODES:
                raise ConfigError(f"the corpus has more than {MAX_NODES:,} pages: read fewer passages (--max-passages)")
            pages[row.page] = len(nodes)
            nodes.append(Node(" ".join(plain_text(row.title).split())[:MAX_FORM], row.page))
    return nodes, pages


class _Reader:
    """Reads statements and adds a node for every object that is no page.

    Args:
        nodes: the pages; other names are appended.
        pages: page id to node.
        titles: tokens of a title to pages.
    """

    def __init__(self, nodes: list[Node], pages: dict[str, int], titles: dict[tuple[str, ...], list[int]]) -> None:
        self.nodes, self.pages, self.titles = nodes, pages, titles
        self.others: dict[tuple[str, ...], int] = {}

    def read(self, rows: Iterable[Row]) -> tuple[Statement, ...]:
        first_row: dict[tuple[int, str, int], int] = {}
        for row in rows:
            subject = self.pages[row.page]
            node = self.nodes[subject]
            plain = without_markup(row.text)
            stated = read_statements(node.name, plain.text, self.titles)
            if stated.definition.noun and not node.definition.noun:
                node.definition, node.kind, node.row = stated.definition, stated.definition.kind, row.number
            targets = {phrase_tokens(label): target for label, target in plain.links}
            for relation, names in stated.facts:
                for name in names:
                    for end in self._objects(name, relation, targets.get(phrase_tokens(name), "")):
                        if end != subject:
                            first_row.setdefault((subject, relation, end), row.number)
        statements = (Statement(*triple, row) for triple, row in first_row.items())
        return tuple(s for s in statements if self._fits(s.object, RELATIONS[s.relation].object))

    def _objects(self, name: str, relation: str, target: str) -> list[int]:
        """The nodes that a name stands for: the page that it links to, else every page with this title, else a new node."""
        tokens = phrase_tokens(name)
        if not tokens or len(tokens) > MAX_NAME_TOKENS or len(name) > MAX_FORM:
            return []
        kind = RELATIONS[relation].object
        if kind == "year":
            return [self._other(tokens, name, "year")]
        if target and phrase_tokens(target) in self.titles:
            return self.titles[phrase_tokens(target)]
        pages = self.titles.get(tokens, [])
        if kind != "person":  # "Low Tide" need not be what "Low Tide (1961 film)" is about
            pages = [number for number in pages if phrase_tokens(self.nodes[number].name) == tokens] if pages else []
        if pages:
            return pages
        # a surname alone is nobody
        return [] if kind == "person" and len(tokens) == 1 else [self._other(tokens, name, kind)]

    def _other(self, tokens: tuple[str, ...], name: str, kind: str) -> int:
        key = (kind, *tokens) if kind == "year" else tokens
        if key not in self.others:
            self.others[key] = len(self.nodes)
            self.nodes.append(Node(name, kind=kind))
        return self.others[key]

    def _fits(self, number: int, wanted: str) -> bool:
        """Whether the object's own page does not contradict its class."""
        kind = self.nodes[number].kind
        return wanted == "any" or kind in ("other", "any", wanted)


def _mentions(
    rows: Iterable[Row], nodes: Sequence[Node], pages: dict[str, int]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Which nodes each row mentions, in its text or title, its own page included."""
    matcher = EntityMatcher(node.forms for node in nodes)
    starts, mentions = [0], array("i")
    for row in rows:
        page_node = pages[row.page]
        numbers = set(matcher.found(f"{plain_text(row.title)}\n{without_markup(row.text).text}")) | {page_node}
        mentions.extend(sorted(numbers))
        starts.append(len(mentions))
    return np.array(starts, np.int64), np.frombuffer(mentions, np.int32).copy() if mentions else np.zeros(0, np.int32)
