"""The meaning of a question: a tree of described things, evaluated exhaustively over the graph.

The root is what is asked for. A leaf is named in the question; every other term is described by its links to its children
and, if given, by a word for what it is and a range of years. The links form a tree, so the exact answers of this
conjunctive query are found from the leaves upwards, and ``assignments`` enumerates all ways to satisfy it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, product
from typing import Final

from creditflow.envs.text.entity_matching import phrase_tokens
from creditflow.envs.wikisearch.synthesis.graph import CorpusGraph, Node

__all__ = ["Described", "Link", "Named", "Term", "answers_of", "assignments", "links_of", "terms_of", "without_link"]

MAX_ASSIGNMENTS: Final = 2


@dataclass(frozen=True, slots=True)
class Named:
    """A thing that the question mentions.

    Attributes:
        node: its number.
        form: the written form; every node with this form is meant.
    """

    node: int
    form: str


@dataclass(frozen=True, slots=True)
class Link:
    """A link of a described thing to another term.

    Attributes:
        relation: name of the relation.
        forward: the described thing is the relation's object (else its subject).
        other: the other term.
        row: row of the passage that states the link between the nodes of the walk.
    """

    relation: str
    forward: bool
    other: Term
    row: int


@dataclass(frozen=True, slots=True)
class Described:
    """A thing that the question describes.

    Attributes:
        node: the node of the walk, which should be the only one that fits.
        links: at least one.
        word: a noun or a description that it must have; "" for none.
        years: first and last year of its definition; None for none.
    """

    node: int
    links: tuple[Link, ...]
    word: str = ""
    years: tuple[int, int] | None = None


Term = Named | Described


def terms_of(term: Term) -> Iterator[Term]:
    """All terms of a tree, from the leaves upwards."""
    if isinstance(term, Described):
        for link in term.links:
            yield from terms_of(link.other)
    yield term


def links_of(term: Term) -> Iterator[tuple[Described, Link]]:
    """All links of a tree with the terms that they describe, from the leaves upwards."""
    if isinstance(term, Described):
        for link in term.links:
            yield from links_of(link.other)
        yield from ((term, link) for link in term.links)


def answers_of(graph: CorpusGraph, term: Term) -> frozenset[int] | None:
    """All nodes that fit a term, found exhaustively; None if nothing restricts it (no links and no word)."""
    if isinstance(term, Named):
        return frozenset(graph.by_form.get(phrase_tokens(term.form), ()))
    matching: frozenset[int] | None = None
    for link in term.links:
        ends = answers_of(graph, link.other)
        linked = frozenset(_linked(graph, link, ends))
        matching = linked if matching is None else matching & linked
    if matching is None and not term.word:
        return None
    matching = frozenset(graph.by_word.get(term.word, ())) if matching is None else matching
    return frozenset(number for number in matching if _fits(graph.nodes[number], term))


def _linked(graph: CorpusGraph, link: Link, others: frozenset[int] | None) -> Iterator[int]:
    """Nodes with this link to one of the others; to anything if ``others`` is None."""
    if others is None:
        numbers = graph.by_relation.get(link.relation, ())
    else:
        index = graph.outgoing if link.forward else graph.incoming
        numbers = tuple(number for end in others for number in index.get((end, link.relation), ()))
    for number in numbers:
        statement = graph.statements[number]
        yield statement.object if link.forward else statement.subject


def _fits(node: Node, term: Described) -> bool:
    if term.word and term.word not in (node.definition.noun, node.definition.description):
        return False
    return term.years is None or (node.year is not None and term.years[0] <= node.year <= term.years[1])


def assignments(graph: CorpusGraph, root: Described, answer: int, most: int = MAX_ASSIGNMENTS) -> list[tuple[int, ...]]:
    """Ways to satisfy the tree with this answer: a node for each term, in the order of ``terms_of``; at most ``most``."""
    return list(islice(_ways(graph, root, answer), most))


def _ways(graph: CorpusGraph, term: Term, node: int) -> Iterator[tuple[int, ...]]:
    if isinstance(term, Named):
        if node in graph.by_form.get(phrase_tokens(term.form), ()):
            yield (node,)
        return
    if not _fits(graph.nodes[node], term):
        return
    children = []
    for link in term.links:
        index = graph.incoming if link.forward else graph.outgoing
        numbers = index.get((node, link.relation), ())
        nodes = [graph.statements[n].subject if link.forward else graph.statements[n].object for n in numbers]
        children.append([way for end in nodes for way in islice(_ways(graph, link.other, end), MAX_ASSIGNMENTS)])
    for ways in product(*children):
        yield (*(number for way in ways for number in way), node)


def without_link(term: Term, gone: Link) -> Term:
    """The tree without one link and all below it; a term may be left without links."""
    if isinstance(term, Named):
        return term
    links = tuple(
        Link(link.relation, link.forward, without_link(link.other, gone), link.row)
        for link in term.links
        if link is not gone
    )
    return Described(term.node, links, term.word, term.years)
