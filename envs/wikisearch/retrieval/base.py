"""Passages, a corpus of them by row, id and page (in memory, or on disk behind the same methods), and what a search engine answers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Final, NamedTuple, Protocol
from urllib.parse import quote

from creditflow.envs.errors import DataError

__all__ = ["SITE", "Corpus", "Hit", "MemoryCorpus", "Passage", "Retriever", "corpus_digest", "site_url"]

SITE: Final = "https://corpus.example/"  # a name that no site can have (RFC 2606)


def site_url(page: str, part: int = 0) -> str:
    """The URL of a page, or of its part, counted from 1.

    >>> site_url("Ada Lovelace", 2)
    'https://corpus.example/Ada%20Lovelace?part=2'
    """
    return SITE + quote(page, safe="", errors="replace") + (f"?part={part}" if part else "")


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a page.

    Attributes:
        id: unique in the corpus.
        title: title of the page.
        text: without the title.
        page: id of the page; passages of one page share it.
        url: where an entry of a result list leads, which has the beginning of a passage; "" for the passage itself.
    """

    id: str
    title: str
    text: str
    page: str
    url: str = ""

    @property
    def contents(self) -> str:
        """Title, newline, text: the form that corpora store and servers send."""
        return f"{self.title}\n{self.text}"


class Hit(NamedTuple):
    """One search result."""

    passage: Passage
    score: float


class Retriever(Protocol):
    """A search engine over a fixed corpus.

    Attributes:
        digest: hash of the corpus; equal digests mean equal passages, and with the same engine equal results.
    """

    digest: str

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """The best ``k`` passages for each query, best first.

        Ties are ordered by id, with dense by row.

        Raises:
            ServiceError: the engine cannot answer.
        """
        ...

    def visit(self, ids: Sequence[str], goal: str = "") -> list[tuple[Passage, ...] | None]:
        """The passages of each page, by page id, passage id or title; None for an unknown one.

        Args:
            ids: what to open.
            goal: what is looked for on the page; a long page is cut to the passages that match it best.

        Raises:
            ServiceError: the engine cannot answer.
        """
        ...

    def fetch(self, ids: Sequence[str]) -> list[Passage]:
        """Passages by id.

        Raises:
            DataError: an unknown id.
        """
        ...


class Corpus(Protocol):
    """Passages in a fixed order.

    Attributes:
        digest: hash of the content; equal digests mean equal passages in equal order.
    """

    digest: str

    def __len__(self) -> int: ...

    def passage(self, row: int) -> Passage:
        """The passage of a row."""
        ...

    def row(self, passage_id: str) -> int | None:
        """The row of an id, or None."""
        ...

    def page_rows(self, page: str) -> tuple[int, ...]:
        """The rows of a page, by its id, in order; () if there is none."""
        ...

    def find_page(self, name: str) -> str | None:
        """The id of the page with this page id, passage id or title, or None."""
        ...


def corpus_digest(passages: Iterable[Passage]) -> str:
    """blake2b-128 of ids, pages and contents in order."""
    digest = blake2b(digest_size=16)
    for passage in passages:
        digest.update(json.dumps([passage.id, passage.page, passage.contents]).encode("ascii"))
    return digest.hexdigest()


class MemoryCorpus:
    """Passages held in memory.

    Args:
        passages: with unique ids.
        digest: digest of the passages, if known.

    Raises:
        DataError: an id occurs twice.
    """

    def __init__(self, passages: Iterable[Passage], digest: str = "") -> None:
        self.passages = tuple(passages)
        self._rows = {passage.id: row for row, passage in enumerate(self.passages)}
        if len(self._rows) != len(self.passages):
            twice = Counter(passage.id for passage in self.passages).most_common(1)[0][0]
            raise DataError(f"passage ids must be unique; {twice[:60]!r} occurs twice")
        self.digest = digest or corpus_digest(self.passages)

    def __len__(self) -> int:
        return len(self.passages)

    def passage(self, row: int) -> Passage:
        """The passage of a row."""
        return self.passages[row]

    def row(self, passage_id: str) -> int | None:
        """The row of an id, or None."""
        return self._rows.get(passage_id)

    @cached_property
    def _pages(self) -> dict[str, tuple[int, ...]]:
        pages: dict[str, list[int]] = {}
        for row, passage in enumerate(self.passages):
            pages.setdefault(passage.page, []).append(row)
        return {page: tuple(rows) for page, rows in pages.items()}

    @cached_property
    def _titles(self) -> dict[str, str]:
        titles: dict[str, str] = {}
        for passage in self.passages:
            titles.setdefault(passage.title, passage.page)
        return titles

    def page_rows(self, page: str) -> tuple[int, ...]:
        """The rows of a page, in order."""
        return self._pages.get(page, ())

    def find_page(self, name: str) -> str | None:
        """The page with this page id, passage id or title."""
        if name in self._pages:
            return name
        row = self._rows.get(name)
        return self.passages[row].page if row is not None else self._titles.get(name)
