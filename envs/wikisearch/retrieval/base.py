"""Passages, their JSON form, a corpus of them by row, id and page (in memory, or on disk behind the same methods), and what engines are."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import DataError, short_repr
from creditflow.envs.reading.json_text import read_json_lines
from creditflow.envs.reading.limits import MAX_PASSAGE

__all__ = [
    "ENGINES",
    "SITE",
    "Corpus",
    "Hit",
    "IndexBuilder",
    "MemoryCorpus",
    "Passage",
    "Ranking",
    "Retriever",
    "RowIndex",
    "corpus_digest",
    "no_ranking",
    "read_document",
    "read_passages",
    "site_url",
    "write_document",
]

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


def read_document(data: Any, *, quotes: bool = False) -> Passage:
    r"""A passage from a corpus row or a server's document.

    Args:
        data: ``{"id", "contents": "title\ntext"}``; or ``title`` with ``text`` or ``content`` instead of contents; and
            optionally ``page`` or ``url``, which names the page (default: its title).
        quotes: keep double quotes around a title, as Search-R1's prompt does.

    Raises:
        DataError: a missing or malformed key.

    >>> read_document({"id": 7, "contents": "\"Inception\"\nA film."}).title
    'Inception'
    """
    if not isinstance(data, Mapping):
        raise DataError(f"a document must be a JSON object, got {short_repr(data)}")
    contents, title = data.get("contents"), data.get("title")
    text = data.get("text", data.get("content"))
    if isinstance(contents, str):
        head, _, body = contents.partition("\n")
        title, text = head, body
    if not isinstance(title, str) or not isinstance(text, str):
        raise DataError(
            f"a document needs 'contents', or 'title' and 'text'; got the keys {sorted(map(str, data))[:8]}"
        )
    if not quotes and len(title) > 1 and title[0] == title[-1] == '"':
        title = title[1:-1]
    page = data.get("page", data.get("url", title))
    number = data.get("id", "")
    if not isinstance(page, str) or not isinstance(number, str | int) or isinstance(number, bool):
        raise DataError(
            f"a document's 'id' must be a text or a number, its 'page' or 'url' a text; got {short_repr(number, 40)}, {short_repr(page, 40)}"
        )
    return Passage(str(number), title, text, page)


def write_document(passage: Passage) -> dict[str, str]:
    """The row of a passage: id, contents, and the page where its name is not the title."""
    row = {"id": passage.id, "contents": passage.contents}
    if passage.page != passage.title:
        row["page"] = passage.page
    return row


def read_passages(path: str | Path) -> Iterator[Passage]:
    """Passages of a JSON lines file (``.gz`` or plain), one at a time.

    Raises:
        DataError: the file or a line is malformed; names the line.
    """
    for where, row in read_json_lines(path, longest=MAX_PASSAGE):
        try:
            passage = read_document(row)
        except DataError as error:
            raise DataError(f"{where}: {error}") from error
        yield passage


ENGINES: Final = ("bm25", "lucene", "dense")

Ranking = tuple[NDArray[np.int64], NDArray[np.float32]]
"""Rows (n,) and scores (n,), best first."""


class RowIndex(Protocol):
    """Ranks the rows of a corpus. The same index and query give the same ranking, ties included."""

    def __len__(self) -> int:
        """Number of passages in its corpus."""
        ...

    def rank(self, queries: Sequence[str], k: int) -> list[Ranking]:
        """The best ``k`` rows for each query; a query is any text.

        Raises:
            ServiceError: the engine failed.
        """
        ...


class IndexBuilder(Protocol):
    """Indexes passages in row order and writes an engine's files into a folder."""

    def add(self, passage: Passage) -> None:
        """Index the next passage."""
        ...

    def finish(self) -> dict[str, Any]:
        """Complete the files; returns facts for the folder's header.

        Raises:
            DataError: the passages cannot be indexed.
        """
        ...

    def close(self) -> None:
        """Close the files, finished or not."""
        ...


def no_ranking() -> Ranking:
    """An empty ranking."""
    return np.empty(0, np.int64), np.empty(0, np.float32)
