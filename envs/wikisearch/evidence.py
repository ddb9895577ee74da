"""What has been read: which golden passages are seen, which names are known, and what a grounded player may do next.

A *grounded* player searches for the question or for names it has read, opens pages it has seen, and gives the golden
answer only once it has seen all the evidence. Its actions are the listed ones; free text is accepted all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from creditflow.envs.text.entity_matching import Lexicon, normalised_phrase
from creditflow.envs.wikisearch.actions import Call
from creditflow.envs.wikisearch.escaping import one_line, searchable
from creditflow.envs.wikisearch.questions import Question
from creditflow.envs.wikisearch.retrieval.base import Passage

__all__ = [
    "UNKNOWN",
    "Reader",
    "evidence_bits",
    "listed_calls",
    "num_evidence",
    "question_lexicon",
    "title_lexicon",
]

UNKNOWN: Final = "unknown"  # the answer of a player who gives up
WRONG_CHOICES: Final = 3


def num_evidence(question: Question) -> int:
    """How many pieces of evidence a question has: its golden passages; or one, any passage with the answer."""
    return max(1, len(question.supporting))


def evidence_bits(question: Question, passage: Passage) -> int:
    """Bit j is set if the passage is the j-th piece of evidence. Golden passages are named by id, page or title."""
    if not question.supporting:
        return int(any(normalised_phrase(answer, passage.text) for answer in question.answers))
    names = (passage.id, passage.page, passage.title)
    return sum(1 << j for j, name in enumerate(question.supporting) if name in names)


class Reader:
    """Names in passages, each passage read once.

    Args:
        lexicon: written forms of what the corpus is about.
    """

    def __init__(self, lexicon: Lexicon) -> None:
        self.lexicon = lexicon
        self._read: dict[str, tuple[str, ...]] = {}

    def names(self, passage: Passage) -> tuple[str, ...]:
        """Forms in a passage, its title included, in order."""
        found = self._read.get(passage.id)
        if found is None:
            found = self.lexicon.mentions(passage.contents)
            if len(self._read) >= 200_000:
                self._read.clear()
            self._read[passage.id] = found
        return found

    def asked(self, question: Question) -> tuple[str, ...]:
        """Forms in a question."""
        return self.lexicon.mentions(question.text)


def title_lexicon(passages: Iterable[Passage]) -> Lexicon:
    """A lexicon of page titles, and of titles without what they have in brackets at the end."""
    forms: dict[str, str] = {}
    for passage in passages:
        title = one_line(passage.title)
        forms.setdefault(title, title)
        plain = title.rpartition(" (")[0] if title.endswith(")") else ""
        if plain:
            forms.setdefault(plain, plain)
    return Lexicon(forms)


def question_lexicon(question: Question) -> Lexicon:
    """A lexicon of one question's own entities: what is left where the corpus cannot be listed."""
    forms = {form: form for entity in question.entities for form in (entity.name, *entity.aliases)}
    return Lexicon(forms | {name: name for name in question.supporting})


def listed_calls(
    question: Question, known: Iterable[str], pages: Sequence[str], complete: bool, tools: bool
) -> list[Call]:
    """The listed calls.

    Args:
        question: the task.
        known: forms read in passages or the question.
        pages: titles of seen pages that have more passages.
        complete: all evidence is seen.
        tools: whether tools may still be used.
    """
    names = set(known)
    calls = []
    if tools:
        queries = {searchable(form) for form in names} | {searchable(question.text)}
        calls += [Call("search", (query,)) for query in sorted(queries - {""})]
        calls += [Call("visit", (page,)) for page in pages]
    right = {answer.casefold() for answer in question.answers}
    others = [form for form in sorted(names) if form.casefold() not in right and form not in question.text]
    choices = [UNKNOWN, *others[:WRONG_CHOICES], *(question.answers[:1] if complete else ())]
    return calls + [Call("answer", (choice,)) for choice in dict.fromkeys(choices)]
