"""The checks against enumeration of everything, on random graphs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.wikisearch.synthesis.checks import (
    fewest_passages,
    needless_hop,
    not_unique,
    shortcut,
    supporting_rows,
)
from creditflow.envs.wikisearch.synthesis.graph import CorpusGraph, Node, Statement
from creditflow.envs.wikisearch.synthesis.queries import (
    Described,
    Link,
    Named,
    Term,
    answers_of,
    assignments,
    links_of,
    terms_of,
    without_link,
)
from creditflow.envs.wikisearch.synthesis.statements import Definition, plain_title

RELATIONS = ("director", "spouse", "sibling")
WORDS = ("film", "actor")


@st.composite
def graphs(draw: st.DrawFn) -> CorpusGraph:
    """A graph of up to six nodes, of which two may share a name."""
    count = draw(st.integers(3, 6))
    names = [f"N{i}" for i in range(count)]
    if draw(st.booleans()):
        names[-1] = "N0 (film)"
    nodes = [
        Node(name, f"p{i}", "person", Definition(draw(st.sampled_from(WORDS)), "", "person", (("birth_year", str(1950 + 5 * i)),)), i)
        for i, name in enumerate(names)
    ]  # fmt: skip
    pairs = [(s, o) for s in range(count) for o in range(count) if s != o]
    chosen = draw(st.lists(st.tuples(st.sampled_from(pairs), st.sampled_from(RELATIONS)), max_size=12, unique=True))
    statements = [Statement(s, relation, o, s) for (s, o), relation in chosen]
    mentions = [{i} for i in range(count)]
    for statement in statements:
        mentions[statement.row].add(statement.object)
    for row, node in draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=4)):
        mentions[row].add(node)
    flat = [node for row in mentions for node in sorted(row)]
    starts = np.cumsum([0, *map(len, mentions)])
    return CorpusGraph(tuple(nodes), tuple(statements), starts.astype(np.int64), np.array(flat, np.int32))


@st.composite
def trees(draw: st.DrawFn, graph: CorpusGraph, depth: int = 3) -> Described:
    """A random tree of links, true or not."""

    def term(left: int) -> Term:
        node = draw(st.integers(0, len(graph.nodes) - 1))
        if left == 0 or draw(st.integers(0, 2)) == 0:
            return Named(node, graph.nodes[node].name)
        return described(left, node)

    def described(left: int, node: int) -> Described:
        links = tuple(
            Link(draw(st.sampled_from(RELATIONS)), draw(st.booleans()), term(left - 1), draw(st.integers(0, 5)))
            for _ in range(draw(st.integers(1, 2)))
        )
        years = draw(st.sampled_from([None, (1950, 1959), (1960, 1960)]))
        return Described(node, links, draw(st.sampled_from(["", *WORDS])), years)

    return described(depth - 1, draw(st.integers(0, len(graph.nodes) - 1)))


@st.composite
def true_trees(draw: st.DrawFn, graph: CorpusGraph) -> Described:
    """A tree of statements that the graph has, so that its node is an answer; not always the only one."""

    def touching(node: int) -> list[tuple[Statement, bool]]:
        return [(s, s.object == node) for s in graph.statements if node in (s.subject, s.object)]

    def term(left: int, node: int) -> Term:
        name = graph.nodes[node].name
        if left == 0 or draw(st.booleans()):
            return Named(node, draw(st.sampled_from([name, plain_title(name)])))
        return described(left, node)

    def described(left: int, node: int) -> Described:
        links = tuple(
            Link(s.relation, forward, term(left - 1, s.subject if forward else s.object), s.row)
            for s, forward in draw(st.lists(st.sampled_from(touching(node)), min_size=1, max_size=2, unique=True))
        )
        word = draw(st.sampled_from(["", graph.nodes[node].definition.noun]))
        return Described(node, links, word, draw(st.sampled_from([None, (1950, 1990)])))

    return described(2, draw(st.sampled_from([end for s in graph.statements for end in (s.subject, s.object)])))


def cases() -> st.SearchStrategy[tuple[CorpusGraph, Described]]:
    anything = graphs().flatmap(lambda graph: st.tuples(st.just(graph), trees(graph)))
    stated = graphs().filter(lambda graph: bool(graph.statements))
    return anything | stated.flatmap(lambda graph: st.tuples(st.just(graph), true_trees(graph)))


def holds(graph: CorpusGraph, term: Term, values: Iterator[int]) -> tuple[bool, int]:
    """Whether one assignment, in the order of ``terms_of``, satisfies a tree; and the term's value."""
    facts = {(s.subject, s.relation, s.object) for s in graph.statements}
    if isinstance(term, Named):
        value = next(values)
        wanted = term.form.removesuffix(" (film)")
        names = graph.nodes[value].name
        return names == term.form or (term.form == wanted and names.removesuffix(" (film)") == wanted), value
    good, others = True, []
    for link in term.links:
        fine, other = holds(graph, link.other, values)
        good &= fine
        others.append((link, other))
    value = next(values)
    for link, other in others:
        good &= ((other, link.relation, value) if link.forward else (value, link.relation, other)) in facts
    node = graph.nodes[value]
    good &= not term.word or node.definition.noun == term.word
    good &= term.years is None or term.years[0] <= 1950 + 5 * value <= term.years[1]
    return good, value


def every_way(graph: CorpusGraph, root: Described) -> list[tuple[int, ...]]:
    count = sum(1 for _ in terms_of(root))
    if len(graph.nodes) ** count > 8_000:
        return []
    return [way for way in product(range(len(graph.nodes)), repeat=count) if holds(graph, root, iter(way))[0]]


@given(cases())
def test_answers_and_assignments_are_those_of_a_full_enumeration(case: tuple[CorpusGraph, Described]) -> None:
    graph, root = case
    if len(graph.nodes) ** sum(1 for _ in terms_of(root)) > 8_000:
        return
    ways = every_way(graph, root)
    assert answers_of(graph, root) == frozenset(way[-1] for way in ways)
    for answer in range(len(graph.nodes)):
        expected = {way for way in ways if way[-1] == answer}
        found = assignments(graph, root, answer, most=2)
        assert set(found) <= expected
        assert len(found) == min(2, len(expected)) == len(set(found))


@given(cases())
def test_a_question_is_unique_if_one_assignment_exists_and_it_is_the_walk(case: tuple[CorpusGraph, Described]) -> None:
    graph, root = case
    if len(graph.nodes) ** sum(1 for _ in terms_of(root)) > 8_000:
        return
    ways = every_way(graph, root)
    forms = {term.form.removesuffix(" (film)") for term in terms_of(root) if isinstance(term, Named)}
    shared = any(
        sum(node.name == form or node.name == f"{form} (film)" for node in graph.nodes) > 1 for form in forms
        if any(isinstance(term, Named) and term.form == form for term in terms_of(root))
    )  # fmt: skip
    assert (not_unique(graph, root) == "") == (len(ways) == 1 and ways[0][-1] == root.node and not shared)


@given(cases())
def test_a_hop_is_needless_if_the_rest_still_has_one_answer(case: tuple[CorpusGraph, Described]) -> None:
    graph, root = case
    if len(graph.nodes) ** sum(1 for _ in terms_of(root)) > 8_000:
        return
    needless = False
    for _, link in links_of(root):
        rest = without_link(root, link)
        if isinstance(rest, Described) and not rest.links and not rest.word:
            continue
        if any(not term.links and not term.word for term in terms_of(rest) if isinstance(term, Described)):
            rest_ways = open_ways(graph, rest)
        else:
            assert isinstance(rest, Described)
            rest_ways = {way[-1] for way in every_way(graph, rest)}
        needless |= len(rest_ways) == 1
    assert (needless_hop(graph, root) != "") == needless


@given(cases())
def test_a_tree_without_a_link_has_all_others_but_those_below_it(case: tuple[CorpusGraph, Described]) -> None:
    _, root = case

    def paths(term: Term, path: tuple[int, ...] = ()) -> dict[tuple[int, ...], Link]:
        found: dict[tuple[int, ...], Link] = {}
        for number, link in enumerate(term.links if isinstance(term, Described) else ()):
            found |= {(*path, number): link, **paths(link.other, (*path, number))}
        return found

    every = paths(root)
    for path, link in every.items():
        kept = [one for other, one in every.items() if other[: len(path)] != path]
        left = [one for _, one in links_of(without_link(root, link))]
        assert sorted((one.relation, one.forward, one.row) for one in left) == sorted(
            (one.relation, one.forward, one.row) for one in kept
        )


def open_ways(graph: CorpusGraph, root: Term) -> set[int]:
    """As ``every_way``; a term without links and word may be anything, its years aside."""

    def free(term: Term) -> Term:
        if isinstance(term, Named):
            return term
        links = tuple(Link(one.relation, one.forward, free(one.other), one.row) for one in term.links)
        years = term.years if links or term.word else None
        return Described(term.node, links, term.word, years)

    tree = free(root)
    assert isinstance(tree, Described)
    return {way[-1] for way in every_way(graph, tree)}


masks = st.lists(st.integers(1, 63).filter(lambda mask: bool(mask & (mask - 1))), max_size=8)


@given(masks, st.sets(st.integers(0, 5), min_size=2, max_size=3))
def test_fewest_passages_is_the_smallest_set_that_connects(found: list[int], terminals: set[int]) -> None:
    def connected(chosen: tuple[int, ...]) -> bool:
        seen = {min(terminals)}
        for _ in range(7):
            seen |= {i for mask in chosen for i in range(6) if mask >> i & 1 and any(mask >> j & 1 for j in seen)}
        return terminals <= seen

    sizes = [n for n in range(1, len(found) + 1) if any(map(connected, combinations(found, n)))]
    assert fewest_passages(found, sorted(terminals), 5) == min([*sizes, 5])


def test_many_passages_that_connect_nothing_are_searched_by_what_they_reach() -> None:
    pairs = [1 << i | 1 << j for i, j in combinations(range(10), 2)]  # sets of them are far too many to try
    assert fewest_passages(pairs, [0, 10], 12) == 12
    assert fewest_passages([*pairs, 1 << 9 | 1 << 10], [0, 10], 12) == 2


@given(cases())
def test_a_shortcut_is_a_smaller_set_of_passages_that_connects_names_and_answer(
    case: tuple[CorpusGraph, Described],
) -> None:
    graph, root = case
    terms = list(terms_of(root))
    nodes = [term.node for term in terms]
    needed = len(supporting_rows(graph, root))
    rows = [
        set(graph.mention_nodes[a:b].tolist()) for a, b in zip(graph.mention_starts, graph.mention_starts[1:], strict=False)
    ]  # fmt: skip
    wanted = {term.node for term in terms if isinstance(term, Named)} | {root.node}

    def connected(chosen: tuple[set[int], ...]) -> bool:
        seen = {root.node}
        for _ in range(7):
            seen |= set().union(*(row & set(nodes) for row in chosen if row & seen & set(nodes)))
        return wanted <= seen

    expected = "one passage" if needed < 2 else "circle" if len(set(nodes)) != len(nodes) else ""
    if not expected and any(connected(chosen) for n in range(1, needed) for chosen in combinations(rows, n)):
        expected = "shortcut"
    assert shortcut(graph, root) == expected
