"""What ranks passages, and what builds its files: the two interfaces that every engine has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.wikisearch.retrieval.base import Passage

__all__ = ["ENGINES", "IndexBuilder", "Ranking", "RowIndex", "no_ranking"]

ENGINES: Final = ("bm25", "tantivy", "lucene")

Ranking = tuple[NDArray[np.int64], NDArray[np.float32]]
"""Rows (n,) and scores (n,), best first."""


class RowIndex(Protocol):
    """Ranks the rows of a corpus. The same index answers the same query in the same way, ties included."""

    def __len__(self) -> int:
        """Passages of the corpus it belongs to."""
        ...

    def rank(self, queries: Sequence[str], k: int) -> list[Ranking]:
        """The best ``k`` rows for each query; queries are any text.

        Raises:
            RetrievalError: the engine cannot answer.
        """
        ...


class IndexBuilder(Protocol):
    """Takes passages in row order and leaves an engine's files in a folder."""

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
        """Let go of files, finished or not."""
        ...


def no_ranking() -> Ranking:
    """Nothing found."""
    return np.empty(0, np.int64), np.empty(0, np.float32)
