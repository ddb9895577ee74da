"""What a search engine is to the environment: passages in, passages out, behind one interface."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from creditflow.envs.errors import CreditflowError

__all__ = ["Hit", "Passage", "RetrievalError", "Retriever"]


class RetrievalError(CreditflowError, ConnectionError):
    """A search server that cannot be reached in time, or that answers with something else than asked for."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a page.

    Attributes:
        id: unique in the corpus.
        title: of the page.
        text: without the title.
        page: id of the page; passages of one page share it.
    """

    id: str
    title: str
    text: str
    page: str

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
        digest: names the corpus; equal digests mean equal passages, and with the same engine equal answers.
    """

    digest: str

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """The best ``k`` passages for each query, best first.

        Equal scores have one order: that of ids, with tantivy that of the passages.

        Raises:
            RetrievalError: the engine cannot answer.
        """
        ...

    def visit(self, ids: Sequence[str], goal: str = "") -> list[tuple[Passage, ...] | None]:
        """The passages of each page, by page id, passage id or title; None for an unknown one.

        Args:
            ids: what to open.
            goal: what the reader looks for; long pages are cut to the passages that fit it best.

        Raises:
            RetrievalError: the engine cannot answer.
        """
        ...

    def fetch(self, ids: Sequence[str]) -> list[Passage]:
        """Passages by id.

        Raises:
            DataError: an unknown id.
        """
        ...
