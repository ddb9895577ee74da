"""The checks on small graphs whose answers are known."""

from __future__ import annotations

import numpy as np

from creditflow.envs.wikisearch.synthesis.checks import leak, not_unique, shortcut, supporting_rows
from creditflow.envs.wikisearch.synthesis.graph import CorpusGraph, Node, Row, Statement, build_graph
from creditflow.envs.wikisearch.synthesis.queries import Described, Link, Named


def test_names_that_a_question_should_hide_are_a_leak() -> None:
    graph = CorpusGraph(
        (Node("Low Tide (film)", "a"), Node("Ann Marie Lee", "b"), Node("New Odense", "c")),
        (Statement(0, "director", 1, 0), Statement(1, "birth_place", 2, 1)),
        np.array([0, 2, 4]), np.array([0, 1, 1, 2], np.int32),
    )  # fmt: skip
    film = Named(0, "Low Tide")
    root = Described(2, (Link("birth_place", True, Described(1, (Link("director", True, film, 0),)), 1),))
    assert leak(graph, root, "Where was the director of Low Tide born?") == ""
    assert leak(graph, root, "Where was ann marie LEE born?") == "hidden name in the question"
    assert leak(graph, root, "Was the director of Low Tide born in New-Odense?") == "answer in the question"
    assert leak(graph, root, "Was the director of Low Tide born near Odense?") == "half the answer in the question"


def small(statements: list[Statement], mentions: list[list[int]], names: str = "ABCDE") -> CorpusGraph:
    """A graph of people, with what each row mentions."""
    starts = np.cumsum([0, *map(len, mentions)]).astype(np.int64)
    flat = np.array([node for row in mentions for node in row], np.int32)
    return CorpusGraph(
        tuple(Node(name, f"p{i}", "person") for i, name in enumerate(names)), tuple(statements), starts, flat
    )


def through(start: int, middle: int, end: int) -> Described:
    """The director of the director of what is named."""
    inner = Described(middle, (Link("director", True, Named(start, "ABCDE"[start]), start),))
    return Described(end, (Link("director", True, inner, middle),))


def test_a_second_answer_a_second_chain_and_a_shared_name_are_told_apart() -> None:
    chain = [Statement(0, "director", 1, 0), Statement(1, "director", 2, 1)]
    rows = [[0, 1], [1, 2], [2], [3], [4]]
    assert not_unique(small(chain, rows), through(0, 1, 2)) == ""
    assert not_unique(small([*chain, Statement(1, "director", 3, 1)], rows), through(0, 1, 2)) == "several answers"
    other = [*chain, Statement(0, "director", 3, 0), Statement(3, "director", 2, 3)]
    assert not_unique(small(other, rows), through(0, 1, 2)) == "several chains"
    assert not_unique(small(chain, rows, "ABCDA"), through(0, 1, 2)) == "ambiguous name"
    assert not_unique(small(chain[:1], rows), through(0, 1, 2)) == "no answer"


def test_a_passage_with_both_ends_is_a_shortcut_and_one_with_the_names_alone_is_not() -> None:
    chain = [Statement(0, "director", 1, 0), Statement(1, "director", 2, 1)]
    assert shortcut(small(chain, [[0, 1], [1, 2], [2], [3], [4]]), through(0, 1, 2)) == ""
    assert shortcut(small(chain, [[0, 1], [1, 2], [2], [3], [0, 2, 4]]), through(0, 1, 2)) == "shortcut"
    both = Described(2, (Link("director", True, Named(0, "A"), 0), Link("spouse", True, Named(1, "B"), 1)))
    stated = [Statement(0, "director", 2, 0), Statement(1, "spouse", 2, 1)]
    assert shortcut(small(stated, [[0, 2], [1, 2], [2], [0, 1], [4]]), both) == ""
    assert shortcut(small(stated, [[0, 2], [1, 2], [2], [0, 1, 2], [4]]), both) == "shortcut"


def test_a_word_or_years_are_supported_by_the_passage_that_defines_the_thing() -> None:
    graph = CorpusGraph(
        (Node("A", "a", "work", row=7), Node("B", "b", "person", row=8), Node("C", "c", "person")),
        (), np.array([0]), np.array([], np.int32),
    )  # fmt: skip

    def rows(word: str, years: tuple[int, int] | None, of: int = 0) -> tuple[int, ...]:
        inner = Described(of, (Link("director", False, Named(2, "C"), 3),), word, years)
        return supporting_rows(graph, Described(1, (Link("writer", True, inner, 5),)))

    assert rows("", None) == (3, 5)
    assert rows("film", None) == rows("", (1950, 1959)) == rows("film", (1950, 1959)) == (3, 7, 5)
    assert rows("film", None, of=2) == (3, 5)  # no passage defines it


def stated(*pages: tuple[str, str]) -> set[tuple[str, str, str]]:
    """What pages, each of a title and a text, state, by names."""
    rows = [Row(number, title, f"page {number}", text) for number, (title, text) in enumerate(pages)]
    graph = build_graph(lambda: iter(rows))
    return {(graph.nodes[s.subject].name, s.relation, graph.nodes[s.object].name) for s in graph.statements}


FILM = "Low Tide is a 1961 film directed by {}."


def test_a_surname_alone_is_nobody_unless_a_page_has_it() -> None:
    year = ("Low Tide", "year", "1961")
    assert stated(("Low Tide", FILM.format("Ann Lee"))) == {year, ("Low Tide", "director", "Ann Lee")}
    assert stated(("Low Tide", FILM.format("Lee"))) == {year}
    assert ("Low Tide", "director", "Lee") in stated(("Low Tide", FILM.format("Lee")), ("Lee", "Lee sings."))


def test_an_object_whose_own_page_says_that_it_is_something_else_is_left_out() -> None:
    for text, kept in (("Ann Lee is a Danish director.", True), ("Ann Lee is a river.", False), ("A name.", True)):
        found = stated(("Low Tide", FILM.format("Ann Lee")), ("Ann Lee", text))
        assert (("Low Tide", "director", "Ann Lee") in found) == kept


def test_a_link_decides_which_page_a_name_means() -> None:
    pages = [(name, f"{name} is a Danish director.") for name in ("Ann Lee (director)", "Ann Lee (born 1950)")]
    both = {("Low Tide", "director", name) for name, _ in pages}
    assert both <= stated(("Low Tide", FILM.format("Ann Lee")), *pages)
    found = stated(("Low Tide", FILM.format("[[Ann Lee (born 1950)|Ann Lee]]")), *pages)
    assert found & both == {("Low Tide", "director", "Ann Lee (born 1950)")}
    elsewhere = stated(("Low Tide", FILM.format("[[No such page|Ann Lee]]")), *pages)
    assert elsewhere & both == both  # a link to a page that the corpus lacks decides nothing
