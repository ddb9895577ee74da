"""Evidence: which golden passages were seen, which names are known, and the calls that are listed as admissible.

The listed calls are those of a *grounded* agent: it searches for the question or for names it has read, opens pages it
has seen, and gives the golden answer only once it has seen all the evidence. Any other call is admissible too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from creditflow.envs.text.entity_matching import Lexicon, normalized_phrase
from creditflow.envs.wikisearch.actions import Call
from creditflow.envs.wikisearch.protocol.escaping import one_line, searchable
from creditflow.envs.wikisearch.questions import Question
from creditflow.envs.wikisearch.retrieval.base import Passage

__all__ = ["UNKNOWN", "Reader", "evidence_bits", "listed_calls", "num_evidence", "question_lexicon", "title_lexicon"]

UNKNOWN: Final = "unknown"  # the answer of an agent that gives up
WRONG_CHOICES: Final = 3


def num_evidence(question: Question) -> int:
    """The number of pieces of evidence: the golden passages; without any, one: any passage that contains an answer."""
    return max(1, len(question.supporting))


def evidence_bits(question: Question, passage: Passage) -> int:
    """The pieces of evidence that a passage is, as bits; none for an entry of a result list.

    Golden passages are named by id, page or title.
    """
    if passage.url:
        return 0
    if not question.supporting:
        return int(any(normalized_phrase(answer, passage.text) for answer in question.answers))
    names = (passage.id, passage.page, passage.title)
    return sum(1 << j for j, name in enumerate(question.supporting) if name in names)


class Reader:
    """Finds names in passages; each passage is searched once.

    Args:
        lexicon: the names, in all their written forms.
    """

    def __init__(self, lexicon: Lexicon) -> None:
        self.lexicon = lexicon
        self._read: dict[str, tuple[str, ...]] = {}

    def names(self, passage: Passage) -> tuple[str, ...]:
        """Names in a passage, its title included, in order."""
        entities = self._read.get(passage.id)
        if entities is None:
            entities = self.lexicon.mentions(passage.contents)
            if len(self._read) >= 200_000:
                self._read.clear()
            self._read[passage.id] = entities
        return entities

    def names_in_question(self, question: Question) -> tuple[str, ...]:
        """Names in a question."""
        return self.lexicon.mentions(question.text)


def title_lexicon(passages: Iterable[Passage]) -> Lexicon:
    """A lexicon of page titles, each also without a final part in brackets."""
    forms: dict[str, str] = {}
    for passage in passages:
        title = one_line(passage.title)
        forms.setdefault(title, title)
        plain = title.rpartition(" (")[0] if title.endswith(")") else ""
        if plain:
            forms.setdefault(plain, plain)
    return Lexicon(forms)


def question_lexicon(question: Question) -> Lexicon:
    """A lexicon of one question's entities, for corpora whose titles cannot be listed."""
    forms = {form: form for entity in question.entities for form in (entity.name, *entity.aliases)}
    return Lexicon(forms | {name: name for name in question.supporting})


def listed_calls(
    question: Question, known: Iterable[str], pages: Sequence[str], complete: bool, tools: bool
) -> list[Call]:
    """The listed calls.

    Args:
        question: the task.
        known: names read in passages or the question.
        pages: names of the pages whose visits are listed.
        complete: whether all evidence was seen.
        tools: whether tools may still be called.
    """
    names = set(known)
    calls = []
    if tools:
        queries = {searchable(form) for form in names} | {searchable(question.text)}
        calls += [Call("search", (query,)) for query in sorted(queries - {""})]
        calls += [Call("visit", (page,)) for page in pages]
    golden = {answer.casefold() for answer in question.answers}
    wrong = [form for form in sorted(names) if form.casefold() not in golden and form not in question.text]
    choices = [UNKNOWN, *wrong[:WRONG_CHOICES], *(question.answers[:1] if complete else ())]
    return calls + [Call("answer", (choice,)) for choice in dict.fromkeys(choices)]
