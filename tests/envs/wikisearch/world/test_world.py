"""The fictional world: constraints, single statement of every fact, questions that need their whole chain."""

from collections import Counter
from functools import cache

import numpy as np
import pytest

from creditflow.envs.errors import ConfigError
from creditflow.envs.text.entity_matching import normalized_phrase
from creditflow.envs.wikisearch.questions import Question
from creditflow.envs.wikisearch.retrieval.base import corpus_digest
from creditflow.envs.wikisearch.world.articles import article, passages
from creditflow.envs.wikisearch.world.ask import InvalidRecipeError, build_question
from creditflow.envs.wikisearch.world.counter_rng import permuted_index, random_int, random_ints
from creditflow.envs.wikisearch.world.encyclopedia import load_encyclopedia
from creditflow.envs.wikisearch.world.graph import KINDS, make_world
from creditflow.envs.wikisearch.world.selection import (
    STRATA,
    Selected,
    answer_from,
    copied_queries,
    facts_in,
    select_questions,
    supported,
)

MANY = 400


@cache
def chosen() -> tuple[Selected, ...]:
    return tuple(select_questions(load_encyclopedia(), MANY))


def questions(split: str = "") -> list[Question]:
    return [one.question for one in chosen() if split in ("", one.split)]


def test_scalar_and_vector_random_numbers_are_equal() -> None:
    assert random_ints(99, 50, 1_000).tolist() == [random_int(99, i, 1_000) for i in range(50)]


@pytest.mark.parametrize("size", [1, 2, 60, 4_096, 9_991])
def test_a_permutation_hits_every_number_once(size: int) -> None:
    assert sorted(permuted_index(i, size, 0xDEADBEEF) for i in range(size)) == list(range(size))


def test_the_world_of_a_seed_never_changes() -> None:
    """Changing the generator changes published task ids: raise GENERATION and publish a new panel."""
    assert corpus_digest(passages(make_world(7, 300))) == "20ce21744e91a5768afe8f61c2a9964d"


def test_dates_are_possible() -> None:
    world = make_world(11, 3_000)
    born, died = world.number["person", "born"], world.number["person", "died"]
    assert (died - born >= 44).all()
    teacher = world.to["person", "teacher"]
    has = teacher >= 0
    assert has.mean() > 0.9
    gap = (born - born[teacher])[has]
    assert gap.min() >= 14
    assert gap.max() <= 55
    age = world.number["work", "year"] - born[world.to["work", "creator"]]
    assert 22 <= age.min() <= age.max() <= 43
    terms, heads = world.lists["organisation", "terms"], world.lists["organisation", "heads"]
    assert (np.diff(terms, axis=1) >= 6).all()
    assert (terms[:, 1:] - born[heads]).min() >= 24
    winner = world.number["event", "year"] - born[world.to["event", "winner"]]
    assert 18 <= winner.min() <= winner.max() <= 55


def test_titles_are_unique_and_some_names_are_shared() -> None:
    world = make_world(11, 3_000)
    named = [(world.title(kind, i), world.name(kind, i)) for kind in KINDS for i in range(world.counts[kind])]
    assert len({title for title, _ in named}) == len(named)
    shared = Counter(name for _, name in named)
    assert 0.02 < sum(count > 1 for count in shared.values()) / len(named) < 0.1
    assert any(world.alias(kind, i) for kind in KINDS for i in range(world.counts[kind]))


def test_an_article_does_not_depend_on_the_others() -> None:
    world = make_world(3, 400)
    streamed = list(passages(world))
    assert streamed[-1] == article(world, 399).passages[-1]
    assert [p for n in range(400) for p in article(world, n).passages] == streamed


def test_every_fact_is_stated_in_one_passage() -> None:
    encyclopedia = load_encyclopedia(3, 400)
    parts = [part for one in encyclopedia.articles for part in zip(one.passages, one.facts, strict=True)]
    stated = Counter(fact for _, facts in parts for fact in {fact[:3] for fact in facts})
    twice = [fact for fact, count in stated.items() if count > 1]
    people = {
        encyclopedia.world.name("person", i)
        for i in range(encyclopedia.world.counts["person"])
        if encyclopedia.world.twin(i) != i
    }
    assert all(subject in people for subject, _, _ in twice)  # only namesakes may agree by chance


def test_a_statement_writes_its_object_in_its_passage() -> None:
    for one in load_encyclopedia(3, 400).articles:
        for passage, facts in zip(one.passages, one.facts, strict=True):
            assert all(fact.written.lower() in passage.text.lower() for fact in facts)


@pytest.mark.parametrize("articles", [0, 199, 1_000_001, 2.5, "many"])
def test_impossible_sizes_are_errors(articles: object) -> None:
    with pytest.raises(ConfigError, match="200 to 1,000,000"):
        make_world(0, articles)  # type: ignore[arg-type]  # that is the test


# -- questions --------------------------------------------------------------------------------------------------------
def test_a_recipe_gives_the_same_question_again() -> None:
    for one in chosen()[:50]:
        assert build_question(load_encyclopedia(), one.recipe) == one.question


def test_every_kind_and_length_is_selected() -> None:
    assert {(one.question.kind, one.hops) for one in chosen()} == set(STRATA)


def test_golden_passages_support_the_answer_and_no_others_are_needed() -> None:
    for question in questions():
        assert supported(question, facts_in(load_encyclopedia(), question.supporting))
        assert question.answer_node == question.edges[-1][2]
        assert question.answers[0] == question.steps[-1].answer


def test_without_any_one_golden_passage_the_whole_rest_of_the_world_does_not_support_the_answer() -> None:
    encyclopedia = load_encyclopedia()
    stated: dict[tuple[str, str, str], set[str]] = {}
    for one in encyclopedia.articles:
        for passage, facts in zip(one.passages, one.facts, strict=True):
            for fact in facts:
                stated.setdefault(fact[:3], set()).add(passage.id)
    for question in questions():
        for golden in question.supporting:
            assert any(stated[edge] == {golden} for edge in question.edges)


def test_splits_share_no_fact() -> None:
    owner: dict[tuple[str, str, str], str] = {}
    for one in chosen():
        for edge in one.question.edges:
            assert owner.setdefault(edge, one.split) == one.split


def test_a_longer_list_begins_with_the_shorter_one() -> None:
    assert tuple(select_questions(load_encyclopedia(), 24)) == chosen()[:24]


def test_the_answer_is_not_in_the_question() -> None:
    assert not any(answer in question.text for question in questions() for answer in question.answers)


@pytest.mark.parametrize(
    "recipe",
    [
        {}, {"kind": "riddle"}, {"kind": "bridge"}, {"kind": "bridge", "start": ["work", 10**9], "via": [], "ask": "year"},
        {"kind": "bridge", "start": ["work", 1], "via": ["teacher"], "ask": "born"}, {"kind": "temporal", "organisation": -1},
        {"kind": "bridge", "start": "work", "via": 3, "ask": None},
        {"kind": "comparison", "a": [["work", 1], "creator"], "b": [["work", 1], "creator"], "pick": "later", "ask": "died"},
    ],
)  # fmt: skip
def test_recipes_without_exactly_one_answer_are_errors(recipe: dict[str, object]) -> None:
    with pytest.raises(InvalidRecipeError):
        build_question(load_encyclopedia(3, 400), recipe)


# -- shortcuts --------------------------------------------------------------------------------------------------------
def rate(right: list[bool]) -> float:
    return sum(right) / len(right)


def ids(queries: list[str], k: int) -> list[str]:
    engine = load_encyclopedia().retriever
    return list(dict.fromkeys(hit.passage.id for found in engine.search(queries, k) for hit in found))


def test_memory_alone_answers_less_than_one_in_twenty() -> None:
    counts: dict[str, Counter[str]] = {}  # answers by the last relation, which a question without its articles shows
    for question in questions("train"):
        counts.setdefault(question.edges[-1][1], Counter())[question.answers[0]] += 1
    prior = {relation: answers.most_common(1)[0][0] for relation, answers in counts.items()}
    held_out = [*questions("valid"), *questions("test")]
    assert rate([prior.get(q.edges[-1][1], "") in q.answers for q in held_out]) < 0.05


@pytest.mark.parametrize("k", [3, 5, 10, 20])
def test_one_search_and_a_perfect_reader_answer_less_than_one_in_five(k: int) -> None:
    assert (
        rate([answer_from(q, facts_in(load_encyclopedia(), ids([q.text], k))) in q.answers for q in questions()]) < 0.2
    )


@pytest.mark.parametrize("k", [3, 5, 10])
def test_copying_from_the_question_answers_less_than_three_in_ten(k: int) -> None:
    found = [ids(copied_queries(load_encyclopedia(), q), k) for q in questions()]
    right = [
        answer_from(q, facts_in(load_encyclopedia(), names)) in q.answers
        for q, names in zip(questions(), found, strict=True)
    ]
    assert rate(right) < 0.3


@pytest.mark.parametrize(("copied", "most"), [(False, 0.2), (True, 0.3)])
def test_the_answer_is_rarely_in_the_passages_of_a_shortcut(copied: bool, most: float) -> None:
    """An upper bound for all readers that quote, whatever they know of the articles."""
    engine, right = load_encyclopedia().retriever, []
    for question in questions():
        found = ids(copied_queries(load_encyclopedia(), question) if copied else [question.text], 5)
        text = "\n".join(passage.contents for passage in engine.fetch(found))
        right.append(any(normalized_phrase(answer, text) for answer in question.answers))
    assert rate(right) < most
