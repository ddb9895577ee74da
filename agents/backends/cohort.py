"""Rows of one key-value cache: which conversation each holds, and which of them new requests continue."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from creditflow.agents.backends.base import GenerationRequest

__all__ = ["Cohort", "picture_names"]


@dataclass
class Cohort:
    """Rows that share one cache.

    Attributes:
        keys: keys of the rows, in order; rows beyond them only pad a static shape.
        seen: int64 (R,), number of tokens of each conversation in the cache.
        held: for each key, ids that begin with those ``seen`` tokens.
        shown: for each key, the names of the pictures in those ids.
        mask: bool (R, S), which cache slots hold a token of the row; S grows with a dynamic cache.
        used: number of slots in use, ≤ S.
        cache: the model's key-value cache.
    """

    keys: list[Hashable]
    seen: np.ndarray[Any, np.dtype[np.int64]]
    held: list[np.ndarray[Any, np.dtype[np.int32]]]
    shown: list[tuple[str, ...]]
    mask: Any
    used: int
    cache: Any

    def continued_by(self, requests: Sequence[GenerationRequest]) -> list[int] | None:
        """The row of each request, if every request continues a row of its own; else None."""
        rows = {key: row for row, key in enumerate(self.keys)}
        chosen = [rows.get(request.key, -1) for request in requests]
        if -1 in chosen or len(set(chosen)) < len(chosen):
            return None
        for row, request in zip(chosen, requests, strict=True):
            seen = int(self.seen[row])
            if seen >= len(request.ids) or not np.array_equal(self.held[row][:seen], request.ids[:seen]):
                return None
            if self.shown[row] != picture_names(request)[: len(self.shown[row])]:
                return None
        return chosen

    def keep(self, places: Sequence[int], rows: Any) -> None:
        """Drop all rows but ``places``; ``rows`` are the same indices on the device."""
        self.cache.batch_select_indices(rows)
        self.mask = self.mask[rows]
        self.seen = self.seen[list(places)]
        self.keys, self.held = [self.keys[p] for p in places], [self.held[p] for p in places]
        self.shown = [self.shown[p] for p in places]


def picture_names(request: GenerationRequest) -> tuple[str, ...]:
    """The names of a request's pictures."""
    return tuple(picture.name for picture in request.pictures)
