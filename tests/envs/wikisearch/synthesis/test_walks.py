"""Candidates of each recipe on a small corpus: what they tell of a thing, and that they tell no more than they need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
from helpers.worlds.film_corpus import film_passages

from creditflow.envs.wikisearch.retrieval.corpus import MemoryCorpus
from creditflow.envs.wikisearch.retrieval.documents import read_document
from creditflow.envs.wikisearch.retrieval.local import LocalRetriever, index_passages
from creditflow.envs.wikisearch.synthesis import checks
from creditflow.envs.wikisearch.synthesis.graph import CorpusGraph, Row, build_graph
from creditflow.envs.wikisearch.synthesis.make import make_question
from creditflow.envs.wikisearch.synthesis.queries import Described, Named, answers_of, links_of, terms_of
from creditflow.envs.wikisearch.synthesis.walks import RECIPES, Candidate, candidate, pivots_of
from creditflow.envs.wikisearch.synthesis.wording import wording_of

YEARS = ("year", "birth_year", "death_year")


@pytest.fixture(scope="module")
def engine() -> LocalRetriever:
    rows = film_passages(60, 20)
    people = [row["contents"].partition("\n")[0] for row in rows if row["id"].startswith("p")]
    for i, name in enumerate(people[:12]):  # things without a year
        rows.append(
            {"id": f"b{i}", "contents": f"Choir {i}\nChoir {i} is a {['rock', 'jazz'][i % 2]} band founded by {name}."}
        )
    return index_passages(MemoryCorpus(read_document(row) for row in rows))


@pytest.fixture(scope="module")
def graph(engine: LocalRetriever) -> CorpusGraph:
    passages = [engine.corpus.passage(number) for number in range(len(engine.corpus))]
    rows = [Row(number, p.title, p.page, p.text) for number, p in enumerate(passages)]
    return build_graph(lambda: iter(rows))


@pytest.fixture(scope="module")
def candidates(graph: CorpusGraph) -> list[Candidate]:
    pivots = pivots_of(graph)
    found = [candidate(graph, pivots, number, 1, RECIPES, (2, 3)) for number in range(1_500)]
    return [one for one in found if one.root is not None]


def roots(candidates: list[Candidate], *recipes: str) -> Iterator[Described]:
    yield from (one.root for one in candidates if one.root is not None and one.recipe in (recipes or RECIPES))


def described(root: Described) -> Iterator[Described]:
    yield from (term for term in terms_of(root) if isinstance(term, Described))


def test_every_link_is_a_statement_in_the_direction_in_which_it_is_told(
    graph: CorpusGraph, candidates: list[Candidate]
) -> None:
    stated = {(s.subject, s.relation, s.object, s.row) for s in graph.statements}
    for root in roots(candidates):
        for term, link in links_of(root):
            ends = (link.other.node, term.node) if link.forward else (term.node, link.other.node)
            assert (ends[0], link.relation, ends[1], link.row) in stated


def test_the_edges_of_questions_are_what_their_passages_state(
    engine: LocalRetriever, graph: CorpusGraph, candidates: list[Candidate]
) -> None:
    directions = Counter[bool]()
    for one in candidates:
        question = make_question(graph, engine, one, k=5).question
        if question is None or one.root is None:
            continue
        for (subject, relation, obj), step, (_, link) in zip(
            question.edges, question.steps, links_of(one.root), strict=True
        ):
            [passage] = engine.fetch([step.passage_id])
            assert passage.title == subject and obj in passage.text
            assert step.answer == (obj if link.forward else subject)
            said = {"director": f"directed by {obj}", "writer": f"written by {obj}", "birth_place": f"born in {obj}"}
            assert said.get(relation, obj) in passage.text
            directions[link.forward] += 1
    assert min(directions[True], directions[False]) > 20


def test_the_entities_of_the_construction_are_what_the_text_describes_or_the_part_of_the_graph_it_was_written_for(
    engine: LocalRetriever, graph: CorpusGraph, candidates: list[Candidate]
) -> None:
    recipes = Counter[str]()
    for chosen in candidates:
        question = make_question(graph, engine, chosen, k=5).question
        if question is None or chosen.root is None:
            continue
        recipes[chosen.recipe] += 1
        if chosen.recipe == "obfuscate":  # SailorFog: all nodes of the sampled part
            assert set(question.construction_entities) == {entity.name for entity in question.entities}
            continue
        # ASearcher: what was replaced, so neither the answer nor a name in the text
        assert question.construction_entities
        assert question.answer_node not in question.construction_entities
        assert not any(name in question.text for name in question.construction_entities)
    assert set(recipes) == {"walk", "inject", "obfuscate"}


def test_a_walk_follows_statements_from_a_name_to_their_objects(candidates: list[Candidate]) -> None:
    for root in roots(candidates, "walk"):
        assert all(link.forward for _, link in links_of(root))
        assert all((term.word, term.years, len(term.links)) == ("", None, 1) for term in described(root))
        assert sum(isinstance(term, Named) for term in terms_of(root)) == 1


def test_what_is_told_fits_one_thing_and_its_links_are_needed_for_that(
    graph: CorpusGraph, candidates: list[Candidate]
) -> None:
    for root in roots(candidates):
        for term in described(root):
            assert answers_of(graph, term) == frozenset({term.node})
            if term.word:
                assert answers_of(graph, replace(term, links=())) != frozenset({term.node})


def test_a_kind_of_thing_is_never_told_by_one_fact_alone(graph: CorpusGraph, candidates: list[Candidate]) -> None:
    words = Counter[str]()
    for root in roots(candidates, "inject", "obfuscate"):
        for term in described(root):
            definition = graph.nodes[term.node].definition
            if any(not link.forward for link in term.links):
                assert term.word in (definition.noun, definition.description)
                assert term.word != definition.noun or term.years is not None or len(term.links) > 1
                words["noun" if term.word == definition.noun else "description"] += 1
    assert min(words["noun"], words["description"]) > 20


def test_a_range_of_years_is_the_decade_of_the_thing_and_is_told_so(
    graph: CorpusGraph, candidates: list[Candidate]
) -> None:
    kinds = Counter[bool]()
    for root in roots(candidates):
        for term in described(root):
            year = graph.nodes[term.node].year
            if term.years is None or year is None:
                continue
            decade = term.years[0] < term.years[1]
            kinds[decade] += 1
            assert term.years == ((year // 10 * 10, year // 10 * 10 + 9) if decade else (year, year))
            assert (f"{year // 10}0s" if decade else str(year)) in wording_of(graph, root)
    assert min(kinds[True], kinds[False]) > 5


def test_years_are_asked_for_now_and_then_although_every_person_has_two(candidates: list[Candidate]) -> None:
    asked = Counter(root.links[0].relation in YEARS for root in roots(candidates, "walk"))
    assert 0.05 < asked[True] / asked.total() < 0.5


def test_names_that_too_many_passages_mention_are_not_searched_for_shortcuts(
    graph: CorpusGraph, candidates: list[Candidate], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = next(roots(candidates, "walk"))
    assert checks.shortcut(graph, root) in ("", "shortcut")
    monkeypatch.setattr(checks, "MAX_CANDIDATE_ROWS", 2)
    assert checks.shortcut(graph, root) == "names everywhere"
