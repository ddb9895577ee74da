"""A corpus of passages: by row, by id, by page; in memory or on disk behind the same few methods."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Protocol

from creditflow.envs.errors import DataError
from creditflow.envs.reading.json_text import read_json_lines
from creditflow.envs.reading.limits import MAX_PASSAGE
from creditflow.envs.wikisearch.retrieval.base import Passage
from creditflow.envs.wikisearch.retrieval.documents import read_document

__all__ = ["Corpus", "MemoryCorpus", "corpus_digest", "read_passages"]


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
