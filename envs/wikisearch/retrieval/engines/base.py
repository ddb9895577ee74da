"""The interfaces of every engine: ``RowIndex`` ranks rows, ``IndexBuilder`` builds an index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.wikisearch.retrieval.base import Passage

__all__ = ["ENGINES", "IndexBuilder", "Ranking", "RowIndex", "no_ranking"]

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
