"""Entities of search questions: quoted queries are not findings, and entities that no text can mention are not counted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from creditflow.envs.text.entity_matching import MATCH_RULES, EntityMatcher
from creditflow.envs.wikisearch.protocol.dialects import DIALECTS, quoted_query
from creditflow.envs.wikisearch.render import searchable
from creditflow.envs.wikisearch.retrieval.base import Passage
from creditflow.wrappers.graphs.entity_graph import EntityGraph
from creditflow.wrappers.graphs.entity_reading import EntityReader, strip_query_echo
from fuzz.mutate_bytes import below, pick
from fuzz.mutate_data import freeze
from fuzz.target import MismatchError, Target

UNASKED = "zzyzx quagga"  # a query that occurs in no text below
WORDS = (
    "Nile", "nile", "NILE river", "Results for", "Results for:", "[1]", "passages for", "3 passages for 'Nile'", "Page:",
    "yes", "no", "The", "the", "Ann", "annual", "", " ", "\n", "\t", "-", "…", "'", "\"", ":", "é", "É", "e\u0301", "ß", "SS", "東京",
    "東", "\u200b", "\ud800", "\0", "<search>", "</information>", "x" * 200, "(1)", "1,000", "1 000", "Doc 1(Title: ", "İ", "ﬁ", "fi",
)  # fmt: skip


def _text(rng: np.random.Generator, most: int) -> str:
    return pick(rng, ("", " ", ", ", "\n")).join(pick(rng, WORDS) for _ in range(below(rng, most + 1)))


# -- lines that quote the query --------------------------------------------------------------------------------------
def _search(rng: np.random.Generator, _: Sequence[bytes]) -> bytes:
    query = _text(rng, 3).strip() or "Nile"  # as actions are parsed
    quotes = [query, f"{query} is long.", f"About {query}", query.upper(), _text(rng, 4)]
    passages = [[pick(rng, quotes), pick(rng, quotes)] for _ in range(1 + below(rng, 3))]
    return freeze({"query": query, "passages": passages})


def _echo(data: bytes, _: Path) -> None:
    """Check that an observation without its quoted query depends only on the passages found."""
    case = json.loads(data)
    query, found = (
        case["query"],
        [Passage(f"p{i}", title, text, title) for i, (title, text) in enumerate(case["passages"])],
    )
    if not searchable(query) or any(quoted_query(line) for one in found for line in (one.title, *one.text.split("\n"))):
        return  # an empty query; or a passage that looks like a tool's own heading
    for name, dialect in DIALECTS.items():
        kept = strip_query_echo(dialect.results([query], [found]), [query])
        other = strip_query_echo(dialect.results([UNASKED], [found]), [UNASKED])
        if kept != other:
            raise MismatchError(
                f"{name}: {kept!r:.200} remains under the query {query!r:.60}, and {other!r:.200} under another"
            )


# -- entities that cannot be mentioned -------------------------------------------------------------------------------
def _names(rng: np.random.Generator, _: Sequence[bytes]) -> bytes:
    return freeze([[_text(rng, 2) for _ in range(1 + below(rng, 3))] for _ in range(1 + below(rng, 4))])


def _mentioned(data: bytes, _: Path) -> None:
    """Check that an entity is countable if and only if its own names mention it."""
    entities: list[list[str]] = json.loads(data)
    for rule in MATCH_RULES:
        matcher = EntityMatcher(entities, rule)
        for number, forms in enumerate(entities):
            seen = any(number in matcher.found(form) for form in forms)
            if seen == (number in matcher.unmatchable):
                raise MismatchError(f"{rule}: the entity {forms!r:.120} is {'not ' * (not seen)}found in its own names")
        named = {forms[0]: forms[1:] for forms in entities if forms[0]}
        if named:
            _countable(named, rule)


def _countable(named: dict[str, list[str]], rule: Any) -> None:
    """Check that the denominator of a scheme counts the entities that it can find; nothing mentions an answer such as "yes"."""
    rows = [{"name": name, "aliases": aliases} for name, aliases in named.items()]
    first = next(iter(named))
    graph = EntityGraph.from_task({"entities": rows, "edges": [], "answer_node": first, "answers": ["yes"]})
    reader = EntityReader(graph, rule=rule)
    text = "\n. ".join(form for name, aliases in named.items() for form in (name, *aliases))
    if len(reader.found(text)) != reader.countable or len(reader.unmatchable) + reader.countable != len(graph):
        raise MismatchError(
            f"{rule}: {reader.countable} entities are countable, and {len(reader.found(text))} are found in their names"
        )


TARGETS = (
    Target(
        name="entities/echo", read=_echo, mutate=_search, cases=400, may_reject=False,
        seeds=lambda _: [freeze({"query": "Nile", "passages": [["Nile", "Nile"], ["Rhine", "Nile\nresults for Nile"]]})],
    ),
    Target(
        name="entities/mentioned", read=_mentioned, mutate=_names, cases=400, may_reject=False,
        seeds=lambda _: [freeze([["yes"], ["no", "No"], ["Nile", "the Nile"], ["…"]])],
    ),
)  # fmt: skip
