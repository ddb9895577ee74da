"""Candidates: random trees of statements, as three recipes make them.

walk        a chain of hops from a named thing to the answer, each to the object of a statement (the graphs of GDCR and SAPO)
inject      a chain whose named thing is replaced by a fact about it, with a decade instead of a year where that fits one
            thing: ASearcher's injection and fuzzing
obfuscate   a part of the graph that may branch: every described thing has the vaguest wording that fits it alone, or a
            second constraint where the vaguest does not: SailorFog's subgraphs and obfuscation
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from creditflow.envs.wikisearch.synthesis.graph import CorpusGraph
from creditflow.envs.wikisearch.synthesis.queries import Described, Link, Named, Term, answers_of
from creditflow.envs.wikisearch.synthesis.relations import RELATIONS
from creditflow.envs.wikisearch.synthesis.wording import name_of

__all__ = ["RECIPES", "Candidate", "candidate", "pivots_of"]

RECIPES: Final = ("walk", "inject", "obfuscate")
YEARS: Final = 0.25  # probability that years are among the choices where there are others: every person has them
MAX_DEGREE: Final = 200  # statements of a node that are chosen from


class Candidate(NamedTuple):
    """A candidate for a question.

    Attributes:
        number: its number; with the seed it determines the walk.
        recipe: name of its recipe.
        hops: links asked for.
        root: the tree, or None if the walk ended too early.
    """

    number: int
    recipe: str
    hops: int
    root: Described | None


class _Edge(NamedTuple):
    """A statement, followed from its subject to its object or back."""

    number: int
    forward: bool
    start: int
    end: int


def pivots_of(graph: CorpusGraph) -> list[int]:
    """Nodes that statements of two different passages are about: only through them does a question need two passages."""
    pivots = []
    for node in range(len(graph.nodes)):
        numbers = (*graph.of_subject.get(node, ()), *graph.of_object.get(node, ()))
        if len({graph.statements[number].row for number in numbers}) > 1 and graph.nodes[node].kind != "year":
            pivots.append(node)
    return pivots


def candidate(
    graph: CorpusGraph, pivots: list[int], number: int, seed: int, recipes: tuple[str, ...], hops: tuple[int, int]
) -> Candidate:
    """The candidate of a number: a pure function of its arguments.

    Args:
        graph: the corpus.
        pivots: nodes to begin with (see ``pivots_of``).
        number: from 0 on; recipes and lengths take turns.
        seed: random seed.
        recipes: names of ``RECIPES``.
        hops: shortest and longest chain, before injection.
    """
    rng = np.random.default_rng([seed, number])
    recipe = recipes[number % len(recipes)]
    length = hops[0] + number // len(recipes) % (hops[1] - hops[0] + 1)
    root = _tree(graph, pivots, rng, recipe, length) if pivots else None
    return Candidate(number, recipe, length, root)


def _tree(
    graph: CorpusGraph, pivots: list[int], rng: np.random.Generator, recipe: str, length: int
) -> Described | None:
    walk = _Walk(graph, rng, forward_only=recipe == "walk")
    chain = walk.chain(int(rng.choice(pivots)), length)
    if chain is None:
        return None
    start, edges = chain
    term: Term | None = Named(start, name_of(graph, start))
    if recipe != "walk":
        link = walk.constraint(start)
        term = None if link is None else _told(graph, Described(start, (link,)), recipe, walk)
    for edge in edges:
        if term is None:
            return None
        statement = graph.statements[edge.number]
        link = Link(statement.relation, edge.forward, term, statement.row)
        term = _told(graph, Described(edge.end, (link,)), recipe, walk)
    return term if isinstance(term, Described) else None


class _Walk:
    """A random walk that visits nothing twice.

    Args:
        graph: the corpus.
        rng: source of randomness.
        forward_only: follow statements to their objects alone.
    """

    def __init__(self, graph: CorpusGraph, rng: np.random.Generator, *, forward_only: bool) -> None:
        self.graph, self.rng, self.forward_only = graph, rng, forward_only
        self.used: set[int] = set()

    def chain(self, pivot: int, length: int) -> tuple[int, list[_Edge]] | None:
        """A path through the pivot: its start, and its edges towards the answer. None at a dead end."""
        self.used.add(pivot)
        before = int(self.rng.integers(1, length))
        start, edges = pivot, list[_Edge]()
        for _ in range(before):
            options = [edge for edge in self._into(start) if self._is_new(edge.start)]
            if not options:
                return None
            edge = self._chosen(options)
            edges.insert(0, edge)
            start = edge.start
            self.used.add(start)
        at = pivot
        for remaining in range(length - before, 0, -1):
            options = [edge for edge in self._out_of(at) if self._is_new(edge.end, year=remaining == 1)]
            if not options:
                return None
            edge = self._chosen(options)
            edges.append(edge)
            at = edge.end
            self.used.add(at)
        return start, edges

    def constraint(self, node: int) -> Link | None:
        """A further link of a node to something new that the question can name."""
        incoming = [edge for edge in self._into(node, forward_only=False) if self._is_new(edge.start)]
        if not incoming:
            return None
        edge = self._chosen(incoming)
        self.used.add(edge.start)
        statement = self.graph.statements[edge.number]
        named = Named(edge.start, name_of(self.graph, edge.start))
        return Link(statement.relation, edge.forward, named, statement.row)

    def _is_new(self, node: int, *, year: bool = False) -> bool:
        return node not in self.used and (year or self.graph.nodes[node].kind != "year")

    def _chosen(self, edges: list[_Edge]) -> _Edge:
        """A random edge of a random relation, so that frequent relations do not make up most questions."""
        relations = sorted({(self.graph.statements[edge.number].relation, edge.forward) for edge in edges})
        with_entities = [pair for pair in relations if RELATIONS[pair[0]].object != "year"]
        if with_entities and self.rng.random() >= YEARS:
            relations = with_entities
        relation = relations[int(self.rng.integers(len(relations)))]
        options = [edge for edge in edges if (self.graph.statements[edge.number].relation, edge.forward) == relation]
        return options[int(self.rng.integers(len(options)))]

    def _out_of(self, node: int) -> Iterator[_Edge]:
        """Edges that leave a node: statements to their objects, and back to subjects that a wording describes."""
        yield from self._edges(self.graph.of_subject.get(node, ()), forward=True)
        if not self.forward_only:
            yield from self._edges(self.graph.of_object.get(node, ()), forward=False)

    def _into(self, node: int, forward_only: bool | None = None) -> Iterator[_Edge]:
        """Edges that end at a node."""
        yield from self._edges(self.graph.of_object.get(node, ()), forward=True)
        if not (self.forward_only if forward_only is None else forward_only):
            yield from self._edges(self.graph.of_subject.get(node, ()), forward=False)

    def _edges(self, numbers: tuple[int, ...], *, forward: bool) -> Iterator[_Edge]:
        for number in numbers[:MAX_DEGREE]:
            statement = self.graph.statements[number]
            relation = RELATIONS[statement.relation]
            if forward and relation.noun:
                yield _Edge(number, True, statement.subject, statement.object)
            elif not forward and relation.inverse:
                yield _Edge(number, False, statement.object, statement.subject)


def _told(graph: CorpusGraph, term: Described, recipe: str, walk: _Walk) -> Described | None:
    """The term in the first wording of its recipe that only its node fits; None if none does."""
    definition, year = graph.nodes[term.node].definition, graph.nodes[term.node].year
    if all(link.forward for link in term.links):
        return term if answers_of(graph, term) == frozenset({term.node}) else None
    if not definition.noun:
        return None
    exact = None if year is None else (year, year)
    decade = None if year is None else (year // 10 * 10, year // 10 * 10 + 9)
    noun = replace(term, word=definition.noun)
    options = [
        replace(term, word=definition.description, years=decade),
        replace(noun, years=decade),
        replace(noun, years=exact),
    ]
    if recipe == "obfuscate":
        options = [replace(noun, years=decade), replace(term, word=definition.description, years=decade)]
        second = None if answers_of(graph, noun) == frozenset({term.node}) else walk.constraint(term.node)
        if second is not None:
            options.insert(0, replace(noun, links=(*term.links, second)))
    alone = frozenset({term.node})
    for description in options:
        if description.word == definition.noun and description.years is None and len(description.links) == 1:
            continue  # "the song written by X" may fit one thing in a corpus, but seldom in the world
        # the description alone must not be enough, or its links would not be needed
        if answers_of(graph, description) == alone and answers_of(graph, replace(description, links=())) != alone:
            return description
    return None
