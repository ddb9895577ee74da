"""Question selection: recipes from random walks, kept if they need their whole chain.

A question is kept if a searcher can answer it within its budget, a search for the question itself does not return its
last passage, and it shares no fact with a question of another split.

The readers here know the grammar of the articles, so they extract every fact of a passage. A question that they cannot
answer from the passages of a shortcut has no such shortcut.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from creditflow.envs.errors import ConfigError
from creditflow.envs.text.entity_matching import normalized_phrase
from creditflow.envs.wikisearch.questions import Question
from creditflow.envs.wikisearch.world.articles import Fact
from creditflow.envs.wikisearch.world.ask import InvalidRecipeError, build_question
from creditflow.envs.wikisearch.world.counter_rng import random_int, stream_key
from creditflow.envs.wikisearch.world.encyclopedia import Encyclopedia
from creditflow.envs.wikisearch.world.graph import HEADS, KINDS, RELATIONS
from creditflow.envs.wikisearch.world.wording import ASK, INJECT

__all__ = [
    "STRATA",
    "Selected",
    "answer_from",
    "calls_needed",
    "copied_queries",
    "facts_in",
    "select_questions",
    "supported",
]

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


def copied_queries(encyclopedia: Encyclopedia, question: Question) -> list[str]:
    """Queries of an agent that only copies from the question: all of it, its names, its clauses."""
    clauses = [clause.strip() for clause in _CLAUSES.split(question.text)]
    names = encyclopedia.lexicon.mentions(question.text)
    return list(dict.fromkeys([question.text, *names, *(clause for clause in clauses if len(clause.split()) > 1)]))


# (kind, hops) of each stratum; a round selects one question per stratum
STRATA: Final = (
    ("bridge", 2),
    ("bridge", 3),
    ("bridge", 4),
    ("comparison", 4),
    ("intersection", 3),
    ("temporal", 3),
    ("bridge", 2),
    ("bridge", 3),
)
SPLITS: Final = ("train",) * 7 + ("valid",) + ("test",) * 2
TOP_K: Final = 3  # results per search that a searcher is assumed to get
MAX_CALLS: Final = 8
HIDDEN_FROM: Final = 10  # a search for the question must not return the last passage among these
MAX_ATTEMPTS: Final = 4_000  # candidates for one question
LISTS: Final = ("head", "member", "participant")
ASKED: Final = {
    kind: tuple(relation for (owner, relation) in ASK if owner == kind and relation not in LISTS) for kind in KINDS
}
PEOPLE: Final = {
    "work": ("creator", "dedicatee"),
    "organisation": ("founder",),
    "event": ("winner",),
    "place": ("architect",),
}


class Selected(NamedTuple):
    """A question, the recipe that makes it, its split and number of hops."""

    question: Question
    recipe: dict[str, Any]
    split: str
    hops: int


class _RandomStream:
    """A stream of integers."""

    def __init__(self, seed: int, label: str) -> None:
        self.key, self.count = stream_key(seed, label), 0

    def below(self, n: int) -> int:
        self.count += 1
        return random_int(self.key, self.count, n)

    def choice(self, options: tuple[str, ...]) -> str:
        return options[self.below(len(options))]


def select_questions(encyclopedia: Encyclopedia, count: int, seed: int = 0) -> Iterator[Selected]:
    """Questions in order; a longer list begins with the shorter one.

    Args:
        encyclopedia: what they are about.
        count: number of questions.
        seed: random seed of the walks.

    Raises:
        ConfigError: the world is too small for this number.
    """
    rng = _RandomStream(encyclopedia.world.seed, f"questions/{seed}")
    owner: dict[tuple[str, str, str], str] = {}  # fact -> split
    texts: set[str] = set()
    for number in range(count):
        kind, hops = STRATA[number % len(STRATA)]
        split = SPLITS[number // len(STRATA) % len(SPLITS)]
        for _ in range(MAX_ATTEMPTS):
            recipe = _recipe(encyclopedia, rng, kind, hops)
            question = _build(encyclopedia, recipe)
            if recipe is None or question is None or question.text in texts:
                continue
            if any(owner.get(edge, split) != split for edge in question.edges) or not _needs_whole_chain(
                encyclopedia, question
            ):
                continue
            owner.update(dict.fromkeys(question.edges, split))
            texts.add(question.text)
            yield Selected(question, recipe, split, hops)
            break
        else:
            raise ConfigError(
                f"a world of {encyclopedia.world.articles} articles yields only {number} of {count} questions"
            )


def _build(encyclopedia: Encyclopedia, recipe: dict[str, Any] | None) -> Question | None:
    try:
        return None if recipe is None else build_question(encyclopedia, recipe)
    except InvalidRecipeError:
        return None


def _needs_whole_chain(encyclopedia: Encyclopedia, question: Question) -> bool:
    """Whether the question is long enough, answerable, and without shortcuts."""
    if any(normalized_phrase(answer, question.text) for answer in question.answers):
        return False
    corpus = encyclopedia.retriever.corpus
    last = question.steps[-1].passage_id
    retrieved = [corpus.passage(row) for row in encyclopedia.rows(question.text, HIDDEN_FROM)]
    if last in (passage.id for passage in retrieved) or len(question.supporting) < 2:
        return False
    copied = dict.fromkeys(
        corpus.passage(row).id
        for query in copied_queries(encyclopedia, question)
        for row in encyclopedia.rows(query, TOP_K)
    )
    if last in copied or answer_from(question, facts_in(encyclopedia, copied)) in question.answers:
        return False
    return calls_needed(encyclopedia, question, TOP_K, MAX_CALLS) is not None


def _start(encyclopedia: Encyclopedia, rng: _RandomStream, kinds: tuple[str, ...]) -> tuple[str, int]:
    kind = rng.choice(kinds)
    return kind, rng.below(encyclopedia.world.counts[kind])


def _bridge(encyclopedia: Encyclopedia, rng: _RandomStream, hops: int) -> dict[str, Any] | None:
    kind, i = _start(encyclopedia, rng, KINDS)
    start = [kind, i]
    inject = rng.choice(tuple(relation for owner, relation in INJECT if owner == kind)) if rng.below(5) < 2 else ""
    via: list[str] = []
    for _ in range(hops - 1):
        relation = rng.choice(tuple(RELATIONS[kind]))
        if relation in via or (not via and relation == inject):
            return None
        via.append(relation)
        kind = RELATIONS[kind][relation]
    ask = rng.choice(tuple(relation for relation in ASKED[kind] if (kind, relation) != ("event", "year")))
    if ask in via:
        return None
    return {"kind": "bridge", "start": start, "via": via, "ask": ask, **({"inject": inject} if inject else {})}


def _comparison(encyclopedia: Encyclopedia, rng: _RandomStream) -> dict[str, Any]:
    sides = []
    for _ in range(2):
        kind, i = _start(encyclopedia, rng, tuple(PEOPLE))
        sides.append([[kind, i], rng.choice(PEOPLE[kind])])
    ask = rng.choice(("birth_place", "employer", "teacher", "died"))
    return {"kind": "comparison", "a": sides[0], "b": sides[1], "pick": rng.choice(("earlier", "later")), "ask": ask}


def _intersection(encyclopedia: Encyclopedia, rng: _RandomStream) -> dict[str, Any]:
    event = rng.below(encyclopedia.world.counts["event"])
    body = int(encyclopedia.world.to["event", "guest_of"][event])
    return {"kind": "intersection", "event": event, "organisation": body, "ask": rng.choice(ASKED["person"])}


def _temporal(encyclopedia: Encyclopedia, rng: _RandomStream) -> dict[str, Any] | None:
    world = encyclopedia.world
    body, head = rng.below(world.counts["organisation"]), rng.below(HEADS)
    start, end = world.lists["organisation", "terms"][body][head : head + 2].tolist()
    years = world.number["work", "year"]
    works = np.flatnonzero((years > start) & (years < end))
    if not len(works):
        return None
    work = int(works[rng.below(len(works))])
    ask = rng.choice(ASKED["person"])
    return {"kind": "temporal", "organisation": body, "head": head, "work": work, "ask": ask}


def _recipe(encyclopedia: Encyclopedia, rng: _RandomStream, kind: str, hops: int) -> dict[str, Any] | None:
    """A random recipe of a stratum; None if the walk fails."""
    if kind == "bridge":
        return _bridge(encyclopedia, rng, hops)
    return _FIXED_LENGTH[kind](encyclopedia, rng)


_FIXED_LENGTH: Final[Mapping[str, Callable[[Encyclopedia, _RandomStream], dict[str, Any] | None]]] = {
    "comparison": _comparison,
    "intersection": _intersection,
    "temporal": _temporal,
}
