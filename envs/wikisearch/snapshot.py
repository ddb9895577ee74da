"""Snapshots of an episode as self-contained JSON text, and their strict parser.

Passages are stored by id where the search engine can fetch them again, and in full where it cannot (a server).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from creditflow.envs.errors import DataError, short_repr
from creditflow.envs.wikisearch.questions import Question
from creditflow.envs.wikisearch.retrieval.base import Passage
from creditflow.envs.wikisearch.retrieval.documents import read_document, write_document

__all__ = ["LastResult", "State", "read_state", "write_state"]

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
    if not isinstance(text, str) or len(text) > MAX_CHARS:
        raise DataError(
            f"a WikiSearch snapshot is a JSON text of at most {MAX_CHARS} characters, got {type(text).__name__}"
        )
    return _read(text) if len(text) <= CACHED_CHARS else _read.__wrapped__(text)


@lru_cache(maxsize=256)
def _read(text: str) -> State:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"a WikiSearch snapshot must be JSON: {error!s:.80}") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT or set(data) != _KEYS:
        raise DataError(f"a WikiSearch snapshot has format {FORMAT!r} and the keys {sorted(_KEYS)}")
    shown, answer = data["shown"], data["answer"]
    if not isinstance(shown, dict) or set(shown) != {"tool", "items", "found"}:
        raise DataError("WikiSearch snapshot: shown must have tool, items and found")
    found = tuple(_texts(ids, "shown.found") for ids in _list(shown["found"], "shown.found"))
    items = _texts(shown["items"], "shown.items")
    if shown["tool"] not in ("", "search", "visit") or len(found) != len(items):
        raise DataError("WikiSearch snapshot: shown must name search or visit, and one list of passages an item")
    if answer is not None and not isinstance(answer, str):
        raise DataError("WikiSearch snapshot: answer must be a text or null")
    evidence = _texts(data["evidence"], "evidence")
    if len(set(evidence)) != len(evidence) or not {name for ids in found for name in ids} <= set(evidence):
        raise DataError("WikiSearch snapshot: evidence must name every shown passage once")
    return State(
        question=Question.from_json(data["question"]),
        steps=_count(data["steps"], "steps"),
        calls=_count(data["calls"], "calls"),
        tokens=_count(data["tokens"], "tokens"),
        evidence=evidence,
        shown=LastResult(shown["tool"], items, found),
        answer=answer,
        documents=tuple(read_document(row) for row in _list(data["documents"], "documents")),
    )


def _list(value: Any, name: str) -> Sequence[Any]:
    if not isinstance(value, list) or len(value) > MAX_LIST_ITEMS:
        raise DataError(f"WikiSearch snapshot: {name} must be a list")
    return value


def _texts(value: Any, name: str) -> tuple[str, ...]:
    items = _list(value, name)
    if not all(isinstance(item, str) for item in items):
        raise DataError(f"WikiSearch snapshot: {name} must hold texts")
    return tuple(items)


def _count(value: Any, name: str) -> int:
    if type(value) is not int or not 0 <= value < 2**53:
        raise DataError(f"WikiSearch snapshot: {name} must be a natural number, got {short_repr(value, 40)}")
    return value
