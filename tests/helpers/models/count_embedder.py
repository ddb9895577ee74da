"""An embedder without a model, for tests of merging: square roots of the counts of letters and of pairs of letters."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from zlib import crc32

import numpy as np

from creditflow.wrappers.canonical.merge import DenseVectors

__all__ = ["CountEmbedder"]

SIZE = 512


class CountEmbedder:
    """Rows of length 1: the inner product of two is the Bhattacharyya coefficient of their counts."""

    def embed(self, texts: Sequence[str]) -> DenseVectors:
        """Return float32 (n, 512)."""
        rows = np.zeros((len(texts), SIZE))
        for row, text in zip(rows, texts, strict=True):
            for gram in (*text, *pairwise(text)):
                row[crc32(repr(gram).encode()) % SIZE] += 1.0
        lengths = np.maximum(rows.sum(axis=1, keepdims=True), 1.0)
        vectors: DenseVectors = np.sqrt(rows / lengths).astype(np.float32)
        return vectors
