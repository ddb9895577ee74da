"""Reciprocal-rank fusion of rankings (Cormack, Clarke and Büttcher 2009)."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from typing import Final

__all__ = ["RRF_K", "reciprocal_rank_fusion"]

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
