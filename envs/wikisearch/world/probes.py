"""Shortcut probes: is a question answerable by its full chain, and not without it?

The readers here know the grammar of the articles, so they extract every fact of a passage. A question that they cannot
answer from the passages of a shortcut has no such shortcut.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from creditflow.envs.wikisearch.questions import Question
from creditflow.envs.wikisearch.world.articles import Fact
from creditflow.envs.wikisearch.world.encyclopedia import Encyclopedia

__all__ = ["answer_from", "calls_needed", "closed_book", "copied_queries", "facts_in", "supported"]

_CLAUSES: Final = re.compile(r',|\bof\b|\bwho\b|\bfrom which\b|\bin which\b|\bto whom\b|\bor\b|\bby\b|\bin\b|"|\?')


def calls_needed(encyclopedia: Encyclopedia, question: Question, k: int, most: int) -> int | None:
    """Tool calls in which an agent that only searches for names it has read collects all golden passages.

    It searches for what the question names, then for whatever the golden passages found so far name, opens pages, and
    keeps the calls that found a golden passage. An upper bound of the fewest; None if ``most`` do not suffice.
    """
    corpus, lexicon = encyclopedia.retriever.corpus, encyclopedia.lexicon
    missing = {row for row in map(corpus.row, question.supporting) if row is not None}
    golden, calls = set(missing), 0
    queried: set[str] = set()
    queries = [question.text, *lexicon.mentions(question.text)]
    while missing:
        gains = {query: missing & set(encyclopedia.rows(query, k)) for query in queries if query not in queried}
        query = max(gains, key=lambda name: len(gains[name]), default="")
        if not query or not gains[query]:
            pages = {corpus.passage(row).page for row in golden - missing}
            opened = [missing & set(corpus.page_rows(page)) for page in sorted(pages)]
            gain = max(opened, key=len, default=set())
        else:
            gain = gains[query]
        calls += 1
        if not gain or calls > most:
            return None
        queried.add(query)
        missing -= gain
        for row in gain:
            queries += [name for name in lexicon.mentions(corpus.passage(row).text) if name not in queries]
    return calls


def facts_in(encyclopedia: Encyclopedia, passage_ids: Iterable[str]) -> list[Fact]:
    """All facts that passages state, in their order."""
    facts: list[Fact] = []
    for name in passage_ids:
        page, _, passage = name.rpartition("-")
        kind, _, i = page.rpartition("-")
        facts += encyclopedia.article(kind, int(i)).facts[int(passage)]
    return facts


def supported(question: Question, facts: Iterable[Fact]) -> bool:
    """Whether the facts contain every link of the question's chain."""
    return set(question.edges) <= {(fact.subject, fact.relation, fact.object) for fact in facts}


def answer_from(question: Question, facts: Sequence[Fact]) -> str:
    """A reader's answer from facts in rank order: correct if the chain is complete, else the first object of the last relation.

    It knows which relation is asked for, and prefers facts whose subject the question names.
    """
    if supported(question, facts):
        return question.answers[0]
    relation = question.edges[-1][1]
    candidates = [fact for fact in facts if fact.relation == relation and fact.object not in question.text]
    named = [fact for fact in candidates if fact.subject in question.text]
    return (named or candidates)[0].object if candidates else ""


def closed_book(questions: Iterable[Question]) -> dict[str, str]:
    """The most frequent answer for each last relation: the best guess without reading."""
    counts: dict[str, Counter[str]] = {}
    for question in questions:
        counts.setdefault(question.edges[-1][1], Counter())[question.answers[0]] += 1
    return {relation: counter.most_common(1)[0][0] for relation, counter in counts.items()}


def copied_queries(encyclopedia: Encyclopedia, question: Question) -> list[str]:
    """Queries of an agent that only copies from the question: all of it, its names, its clauses."""
    clauses = [clause.strip() for clause in _CLAUSES.split(question.text)]
    names = encyclopedia.lexicon.mentions(question.text)
    return list(dict.fromkeys([question.text, *names, *(clause for clause in clauses if len(clause.split()) > 1)]))
