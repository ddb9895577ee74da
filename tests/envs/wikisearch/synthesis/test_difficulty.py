"""The measure of difficulty on a handful of passages whose figures are known."""

from __future__ import annotations

import pytest

from creditflow.envs.wikisearch.questions import Entity, Question
from creditflow.envs.wikisearch.retrieval.base import Passage
from creditflow.envs.wikisearch.retrieval.corpus import MemoryCorpus
from creditflow.envs.wikisearch.retrieval.local import index_passages
from creditflow.envs.wikisearch.synthesis.difficulty import difficulty_of

TITLES = ("Alder", "Birch", "Cedar", "Dogwood")


def figures(links: str, *, results: int = 1, answer: str = "gold") -> dict[str, float]:
    """Of a question that names the first page, when each page mentions those that ``links`` names after it, as in "AB BC"."""
    passages = []
    for title in TITLES:
        named = [TITLES["ABCD".index(pair[1])] for pair in links.split() if pair[0] == title[0]]
        text = f"{title} {title} tells of {' '.join(named)}." + (" It has gold." if title == "Dogwood" else "")
        passages.append(Passage(title[0], title, text, title))
    question = Question(
        id="q", text="What does Alder lead to?", answers=(answer,), supporting=("A", "B", "C", "D"),
        entities=tuple(Entity(title, ()) for title in TITLES),
    )  # fmt: skip
    return difficulty_of(index_passages(MemoryCorpus(passages)), [question], results)


@pytest.mark.parametrize(
    ("links", "in_three", "ever"),
    [
        ("AB BC CD", 0.0, 1.0),  # a chain: four searches
        ("AB AC AD", 0.0, 1.0),
        ("AB BC", 0.0, 0.0),  # the last name is never read, so the expert does not search for it
        ("DC CB BA", 0.0, 0.0),
    ],
)
def test_the_expert_searches_only_for_names_that_it_has_read(links: str, in_three: float, ever: float) -> None:
    found = figures(links)
    assert (found["expert_in_two"], found["expert_in_three"], found["expert"]) == (0.0, in_three, ever)


def test_a_search_that_finds_several_passages_saves_searches() -> None:
    found = figures("AB BC CD DC", results=3)  # a search for Cedar finds the two pages that mention it too
    assert (found["expert_in_two"], found["expert_in_three"], found["expert"]) == (0.0, 1.0, 1.0)


def test_an_answer_passage_is_one_that_has_an_answer() -> None:
    assert figures("AB BC CD")["answer_in_one"] == 0.0
    assert figures("AB BC CD", answer="Birch")["answer_in_one"] == 1.0
    assert figures("AB BC CD", results=4)["all_in_one"] == 0.0
    assert figures("AB BA AD DA AC CA", results=4)["all_in_one"] == 1.0
