"""A corpus of passages: by row, by id, by page; in memory or on disk behind the same few methods."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Protocol

from creditflow.envs.errors import DataError
from creditflow.envs.wikisearch.documents import read_document
from creditflow.envs.wikisearch.retrieval import Passage

__all__ = ["Corpus", "MemoryCorpus", "corpus_digest", "read_passages"]

MAX_LINE = 10_000_000


class Corpus(Protocol):
    """Passages in a fixed order.

    Attributes:
        digest: names the content; equal digests mean equal passages in equal order.
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
        """The id of the page that a page id, passage id or title names, or None."""
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
        digest: of the passages, if known.

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
        """The page that a page id, a passage id or a title names."""
        if name in self._pages:
            return name
        row = self._rows.get(name)
        return self.passages[row].page if row is not None else self._titles.get(name)


def read_passages(path: str | Path) -> Iterator[Passage]:
    """Passages of a JSON lines file (``.gz`` or plain), one at a time.

    Raises:
        DataError: the file or a line is malformed; names the line.
    """
    path = Path(path)
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8") as lines:
            number = 0
            while line := lines.readline(MAX_LINE + 1):
                number += 1
                if len(line) > MAX_LINE:
                    raise DataError(f"{path}, line {number}: longer than {MAX_LINE} characters")
                if line.strip():
                    yield _read_line(line, f"{path}, line {number}")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as JSON lines of passages: {error}") from error


def _read_line(line: str, where: str) -> Passage:
    try:
        return read_document(json.loads(line))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: {str(error)[:200]}") from error
