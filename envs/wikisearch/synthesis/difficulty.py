"""How hard questions are for search: one search for the question itself, and an expert that also searches for names it has read.

The measure reads only what every question file with golden passages has, so that synthesised and published questions
are measured alike.
"""

from __future__ import annotations

from collections.abc import Sequence

from creditflow.envs.text.entity_matching import normalized_phrase
from creditflow.envs.wikisearch.protocol.escaping import searchable
from creditflow.envs.wikisearch.questions import Question
from creditflow.envs.wikisearch.retrieval.base import Passage
from creditflow.envs.wikisearch.retrieval.local import LocalRetriever
from creditflow.envs.wikisearch.synthesis.statements import plain_title

__all__ = ["difficulty_of"]

MAX_SEARCHES = 10


def difficulty_of(retriever: LocalRetriever, questions: Sequence[Question], k: int) -> dict[str, float]:
    """Fractions of the questions.

    Args:
        retriever: the engine.
        questions: with golden passages of its corpus; others are left out.
        k: results of a search.

    Returns:
        ``questions``: how many were measured; ``answer_in_one``: one search for the question finds a golden passage that
        contains an answer; ``all_in_one``: it finds all golden passages; ``expert_in_two``, ``expert_in_three``: so do two
        or three searches by an expert; ``expert``: so do at most ``MAX_SEARCHES``. The expert searches for the question or
        for names: the golden titles and the question's entities, each once it was read in the question or in a golden passage.
    """
    rows = []
    for question in questions:
        golden = [passage for name in question.supporting for passage in retriever.named(name)]
        if golden:
            rows.append(_measured(retriever, question, golden, k))
    if not rows:
        return {"questions": 0}
    single, every, searches = zip(*rows, strict=True)
    count = len(rows)
    return {
        "questions": count,
        "answer_in_one": sum(single) / count,
        "all_in_one": sum(every) / count,
        "expert_in_two": sum(number <= 2 for number in searches) / count,
        "expert_in_three": sum(number <= 3 for number in searches) / count,
        "expert": sum(number <= MAX_SEARCHES for number in searches) / count,
    }  # fmt: skip


def _measured(
    retriever: LocalRetriever, question: Question, golden: Sequence[Passage], k: int
) -> tuple[bool, bool, int]:
    hits = {hit.passage.id for hit in retriever.search([searchable(question.text)], k)[0]}
    answering = {p.id for p in golden if any(normalized_phrase(answer, p.contents) for answer in question.answers)}
    golden_ids = {passage.id for passage in golden}
    return bool(answering & hits), golden_ids <= hits, _searches(retriever, question, golden, hits, k)


def _searches(retriever: LocalRetriever, question: Question, golden: Sequence[Passage], first: set[str], k: int) -> int:
    """The fewest searches after which all golden passages were found, by breadth; ``MAX_SEARCHES`` + 1 if more."""
    forms = {plain_title(passage.title) for passage in golden}
    forms |= {entity.name for entity in question.entities} | {form for e in question.entities for form in e.aliases}
    names = sorted(form for form in forms if form.strip())
    golden_ids = frozenset(passage.id for passage in golden)

    def found_by(name: str) -> frozenset[str]:
        return golden_ids.intersection(hit.passage.id for hit in retriever.search([searchable(name)], k)[0])

    def named_in(text: str) -> frozenset[str]:
        return frozenset(name for name in names if normalized_phrase(name, text))

    finds = {name: found_by(name) for name in names}
    mentioned = {"": named_in(question.text), **{p.id: named_in(p.contents) for p in golden}}
    states = {frozenset[str]()}
    for number in range(1, MAX_SEARCHES + 1):
        after = set[frozenset[str]]()
        for state in states:
            queries = mentioned[""].union(*(mentioned[name] for name in state))
            gains = [frozenset(first & golden_ids), *(finds[name] for name in queries)]
            after |= {state | gain for gain in gains if not gain <= state}
        if golden_ids in after:
            return number
        if not after:
            break
        states = after
    return MAX_SEARCHES + 1
