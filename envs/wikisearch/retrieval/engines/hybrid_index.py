"""Hybrid retrieval: a lexical and a dense ranking of the same passages, joined by reciprocal-rank fusion.

Both rankings are read 100 deep for any number of results up to that, so a short list is the beginning of a long one. Equal
sums are in the order of passages. The fusion is that of Cormack, Clarke and Büttcher (2009).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from typing import Any, Final

import numpy as np

from creditflow.envs.errors import DataError
from creditflow.envs.wikisearch.retrieval.base import Passage
from creditflow.envs.wikisearch.retrieval.engines.base import IndexBuilder, Ranking, RowIndex, no_ranking

__all__ = ["DEPTH", "RRF_K", "HybridBuilder", "HybridIndex", "reciprocal_rank_fusion"]

RRF_K: Final = 60  # the paper's


def reciprocal_rank_fusion(rankings: Sequence[Sequence[int]], k: int, constant: int = RRF_K) -> list[tuple[int, float]]:
    """The best ``k`` items by Σ 1 / (constant + rank), ranks from 1; a ranking without the item adds nothing.

    Equal sums are in the order of items. Sums are rounded once, so the order of the rankings has no effect.

    Args:
        rankings: items, best first; an item that one ranking repeats counts where it stands first.
        k: items to return.
        constant: how little the first ranks stand out.

    >>> [(item, round(score, 5)) for item, score in reciprocal_rank_fusion([[7, 3], [3, 9]], 3)]
    [(3, 0.03252), (7, 0.01639), (9, 0.01613)]
    """
    shares_of: dict[int, list[float]] = {}
    for ranking in rankings:
        for rank, item in enumerate(dict.fromkeys(ranking), start=1):
            shares_of.setdefault(item, []).append(1 / (constant + rank))
    sums = {item: fsum(shares) for item, shares in shares_of.items()}
    return sorted(sums.items(), key=lambda pair: (-pair[1], pair[0]))[: max(k, 0)]


DEPTH: Final = 100  # passages of each ranking that are fused; more only where more are asked for


class HybridBuilder:
    """Builds a lexical and a dense index in one folder.

    Args:
        lexical: builder of the lexical engine.
        dense: builder of the vectors.
        name: name of the lexical engine.
    """

    def __init__(self, lexical: IndexBuilder, dense: IndexBuilder, name: str) -> None:
        self._lexical, self._dense, self._name = lexical, dense, name

    def add(self, passage: Passage) -> None:
        """Index the next passage in both."""
        self._lexical.add(passage)
        self._dense.add(passage)

    def finish(self) -> dict[str, Any]:
        """Complete both."""
        return {**self._lexical.finish(), **self._dense.finish(), "lexical": self._name}

    def close(self) -> None:
        """Close both, finished or not."""
        self._lexical.close()
        self._dense.close()


class HybridIndex:
    """Engines over the same passages as one ``RowIndex``.

    Args:
        engines: rank the same rows.

    Raises:
        DataError: they differ in size.
    """

    def __init__(self, *engines: RowIndex) -> None:
        if len({len(engine) for engine in engines}) != 1:
            sizes = " and ".join(str(len(engine)) for engine in engines)
            raise DataError(f"fused engines must rank the same passages; these have {sizes}")
        self._engines = engines

    def __len__(self) -> int:
        return len(self._engines[0])

    def rank(self, queries: Sequence[str], k: int) -> list[Ranking]:
        """The best ``k`` rows for each query; scores are sums of reciprocal ranks.

        Raises:
            ServiceError: an engine failed.
        """
        if k <= 0:
            return [no_ranking() for _ in queries]
        each = [engine.rank(queries, max(k, DEPTH)) for engine in self._engines]
        return [self._fused([ranking[0].tolist() for ranking in rankings], k) for rankings in zip(*each, strict=True)]

    def _fused(self, rankings: list[list[int]], k: int) -> Ranking:
        best = reciprocal_rank_fusion(rankings, k)
        return np.array([row for row, _ in best], np.int64), np.array([score for _, score in best], np.float32)
