"""Snapshots of an episode as self-contained JSON text, and their strict parser.

Passages are stored by id where the search engine can fetch them again, and in full where it cannot (a server).
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Final, NamedTuple

from creditflow.envs.errors import DataError
from creditflow.envs.reading import checked
from creditflow.envs.wikisearch.questions import Question
from creditflow.envs.wikisearch.retrieval.base import Passage, read_document, write_document

__all__ = ["LastResult", "State", "read_state", "write_state"]

KIND: Final = "WikiSearch snapshot"
FORMAT: Final = "wikisearch/1"
MAX_CHARS: Final = 50_000_000
CACHED_CHARS: Final = 100_000  # longer snapshots (of search servers) are not cached
MAX_LIST_ITEMS: Final = 100_000
_KEYS: Final = {"format", "question", "steps", "calls", "tokens", "evidence", "shown", "answer", "documents"}


class LastResult(NamedTuple):
    """What the last tool call returned: the tool, its items, and for each item the ids of its passages."""

    tool: str = ""
    items: tuple[str, ...] = ()
    found: tuple[tuple[str, ...], ...] = ()


class State(NamedTuple):
    """The state of an episode.

    Attributes:
        question: the task.
        steps: steps taken, invalid ones included.
        calls, tokens: tool calls and tool-result tokens used.
        evidence: ids of the passages seen, in the order in which they were first seen.
        shown: what the last tool call returned.
        answer: the answer given, or None.
        documents: the passages themselves, where ids are not enough.
    """

    question: Question
    steps: int
    calls: int
    tokens: int
    evidence: tuple[str, ...]
    shown: LastResult
    answer: str | None
    documents: tuple[Passage, ...] = ()


def write_state(state: State) -> str:
    """The snapshot's JSON text; equal states give equal texts."""
    rest = json.dumps(
        {
            "steps": state.steps,
            "calls": state.calls,
            "tokens": state.tokens,
            "evidence": state.evidence,
            "shown": {"tool": state.shown.tool, "items": state.shown.items, "found": state.shown.found},
            "answer": state.answer,
            "documents": [write_document(passage) for passage in state.documents],
        },
        separators=(",", ":"),
    )
    return f'{{"format":"{FORMAT}","question":{_question_text(state.question)},{rest[1:]}'


@lru_cache(maxsize=1024)
def _question_text(question: Question) -> str:
    return json.dumps(question.to_json(), separators=(",", ":"))


def read_state(text: str) -> State:
    """The state in a snapshot.

    Raises:
        DataError: not a snapshot of this environment.
    """
    short = isinstance(text, str) and len(text) <= CACHED_CHARS
    return _read(text) if short else _read.__wrapped__(text)


@lru_cache(maxsize=256)
def _read(text: str) -> State:
    data = checked.snapshot_fields(text, kind=KIND, form=FORMAT, fields=_KEYS, limit=MAX_CHARS)
    result, answer = data["shown"], data["answer"]
    if not isinstance(result, dict) or set(result) != {"tool", "items", "found"}:
        raise DataError(f"{KIND}: shown must have tool, items and found")
    listed = tuple(
        checked.texts(ids, f"{KIND}: shown.found", MAX_LIST_ITEMS)
        for ids in checked.items(result["found"], f"{KIND}: shown.found", MAX_LIST_ITEMS)
    )
    items = checked.texts(result["items"], f"{KIND}: shown.items", MAX_LIST_ITEMS)
    if result["tool"] not in ("", "search", "visit") or len(listed) != len(items):
        raise DataError(f"{KIND}: shown must name search or visit, and one list of passages per item")
    evidence = checked.texts(data["evidence"], f"{KIND}: evidence", MAX_LIST_ITEMS)
    if len(set(evidence)) != len(evidence) or not {name for ids in listed for name in ids} <= set(evidence):
        raise DataError(f"{KIND}: evidence must name every shown passage once")
    return State(
        question=Question.from_json(data["question"]),
        steps=checked.integer(data["steps"], f"{KIND}: steps"),
        calls=checked.integer(data["calls"], f"{KIND}: calls"),
        tokens=checked.integer(data["tokens"], f"{KIND}: tokens"),
        evidence=evidence,
        shown=LastResult(result["tool"], items, listed),
        answer=None if answer is None else checked.text(answer, f"{KIND}: answer"),
        documents=tuple(
            read_document(row) for row in checked.items(data["documents"], f"{KIND}: documents", MAX_LIST_ITEMS)
        ),
    )
