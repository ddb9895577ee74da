"""A simulator without a model: passages of the corpus, chosen by what they tell about the question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from creditflow.envs.text.bm25.analyser import analyse
from creditflow.envs.text.entity_matching import normalized_phrase
from creditflow.envs.wikisearch.evidence import evidence_bits
from creditflow.envs.wikisearch.questions import Question
from creditflow.envs.wikisearch.retrieval.base import Passage
from creditflow.envs.wikisearch.retrieval.local import LocalRetriever

__all__ = ["CorpusSimulator"]

POOL: Final = 50  # results of a query from which noisy passages are taken
_ANYWHERE: Final = frozenset(("yes", "no", "unknown"))  # answers that are words of any text


class CorpusSimulator:
    """Documents from a corpus in this process.

    Useful ones are the question's golden passages that share words with the query, as the engine ranks them, and then what else
    it finds. Noisy ones are what the engine finds without the golden passages and without any passage that
    contains an answer: the query's words with other entities or relations.

    Args:
        local: the engine over the corpus.
    """

    def __init__(self, local: LocalRetriever) -> None:
        self._local = local

    def __call__(self, question: Question, query: str, k: int, noisy: bool) -> list[Passage]:
        """At most ``k`` passages, best first; fewer if the corpus has no more."""
        return self._noisy(question, query)[:k] if noisy else self._useful(question, query, k)[:k]

    def _found(self, query: str, k: int) -> list[Passage]:
        return [hit.passage for hit in self._local.search([query], k)[0]]

    def _useful(self, question: Question, query: str, k: int) -> list[Passage]:
        golden = {p.id: p for name in question.supporting for p in self._local.named(name)}
        shared = {name: _shared_words(query, passage) for name, passage in golden.items()}
        retrieved = self._found(query, max(POOL, k + len(golden)))
        rank = {passage.id: position for position, passage in enumerate(retrieved)}
        named = (name for name in golden if shared[name])
        first = sorted(named, key=lambda name: (rank.get(name, len(retrieved)), -shared[name]))
        return [golden[name] for name in first] + [p for p in retrieved if p.id not in golden]

    def _noisy(self, question: Question, query: str) -> list[Passage]:
        answers = [answer for answer in question.answers if answer.casefold() not in _ANYWHERE]
        return [p for p in self._found(query, POOL) if not evidence_bits(question, p) and not _states(p, answers)]


def _shared_words(query: str, passage: Passage) -> int:
    return len(set(analyse(query.lower())) & set(analyse(passage.contents.lower())))


def _states(passage: Passage, answers: Sequence[str]) -> bool:
    return any(normalized_phrase(answer, passage.contents) for answer in answers)
