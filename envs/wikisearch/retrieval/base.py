"""The interface of a search engine: passages, hits and the retriever protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

__all__ = ["Hit", "Passage", "Retriever"]


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
