"""Texts as unit vectors: the interface of an embedder, and an embedder by hashed n-grams that needs no model.

The hashed vectors stay sparse: without a projection similarities are exact, and the search for similar texts
(``merge.py``) can skip most pairs without missing one. Hashes and square roots are equal on all machines.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError

__all__ = ["CachedEmbedder", "DenseVectors", "Embedder", "HashingEmbedder", "SparseVectors"]

DenseVectors = NDArray[np.float32]  # (n, d), rows of length 1 (or 0: similar to nothing)


@dataclass(frozen=True, slots=True, eq=False)
class SparseVectors:
    """n rows of length 1 (or 0: similar to nothing) in a space of 2^64 features; row i is ``offsets[i]:offsets[i+1]``.

    Attributes:
        feature: uint64 (nnz,), ascending within a row.
        weight: float64 (nnz,), > 0.
        offsets: int64 (n+1,).
    """

    feature: NDArray[np.uint64]
    weight: NDArray[np.float64]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1


class Embedder(Protocol):
    """Map from texts to unit vectors whose inner product is their similarity. Equal texts have equal vectors."""

    def embed(self, texts: Sequence[str]) -> SparseVectors | DenseVectors:
        """Return one row per text."""
        ...


class CachedEmbedder:
    """Vectors of texts that were embedded before, so that a state is embedded once per run and not once per visit.

    Args:
        embedder: embeds the texts that are new, all of a call together; its vectors are dense.
        capacity: number of texts that are remembered; beyond it, the ones added first are forgotten.

    Attributes:
        embedded: number of texts that the embedder has embedded.
    """

    def __init__(self, embedder: Embedder, capacity: int = 65_536) -> None:
        if capacity < 1:
            raise ConfigError(f"capacity must be at least 1, got {capacity}")
        self._embedder, self._capacity = embedder, capacity
        self._vectors: dict[str, NDArray[np.float32]] = {}
        self.embedded = 0

    def embed(self, texts: Sequence[str]) -> DenseVectors:
        """Return one row per text; float32 (n, d)."""
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if new or not texts:
            vectors = self._embedder.embed(new)
            if isinstance(vectors, SparseVectors):
                raise ConfigError("only dense vectors are cached: n-grams are hashed as fast as they are looked up")
            if not texts:
                return vectors
            self._vectors.update(zip(new, vectors, strict=True))
            self.embedded += len(new)
        rows = np.stack([self._vectors[text] for text in texts])
        for text in list(self._vectors)[: max(0, len(self._vectors) - self._capacity)]:
            del self._vectors[text]
        return rows


_TOKEN = re.compile(r"\w+|[^\w\s]")
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))  # splitmix64
_STEP = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class HashingEmbedder:
    """Square roots of n-gram counts, scaled to length 1; case and the amount of white space are ignored.

    The inner product of two such vectors is the Bhattacharyya coefficient Σ √(p q) of the texts' n-gram frequencies:
    1 for equal frequencies, 0 without a common n-gram. The root reduces the weight of the most frequent n-grams.

    Attributes:
        words: maximum length of word n-grams (a punctuation mark is a word); 0 for none.
        characters: length of character n-grams, across word boundaries; 0 for none.

    Raises:
        ConfigError: a size is negative, or both are 0.

    >>> vectors = HashingEmbedder(words=1, characters=0).embed(["red mug", "Mug  red", "blue mug"])
    >>> float(round(vectors.weight[:2] @ vectors.weight[2:4], 3))
    1.0
    """

    words: int = 2
    characters: int = 5

    def __post_init__(self) -> None:
        """Check sizes."""
        if min(self.words, self.characters) < 0 or not self.words + self.characters:
            raise ConfigError(
                f"n-gram sizes must be ≥ 0 and not both 0, got words={self.words!r}, characters={self.characters!r}"
            )

    def embed(self, texts: Sequence[str]) -> SparseVectors:
        """Return one row per text."""
        word_hashes: dict[str, int] = {}
        features, weights, sizes = [], [], []
        for text in texts:
            grams = self._grams(text, word_hashes)
            feature, count = np.unique(grams, return_counts=True)
            features.append(feature)
            weights.append(np.sqrt(count / max(len(grams), 1)))
            sizes.append(len(feature))
        offsets = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        empty = np.zeros(0)
        return SparseVectors(
            np.concatenate([empty.astype(np.uint64), *features]), np.concatenate([empty, *weights]), offsets
        )

    def _grams(self, text: str, word_hashes: dict[str, int]) -> NDArray[np.uint64]:
        """Hash all n-grams of a text, with repeats; ``word_hashes`` caches the hashes of words."""
        words = _TOKEN.findall(text.casefold())
        hashes = []
        if self.words:
            for word in words:
                if word not in word_hashes:
                    digest = blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
                    word_hashes[word] = int.from_bytes(digest, "big")
            hashes += _rolled(
                np.array([word_hashes[word] for word in words], np.uint64), range(1, self.words + 1), salt=1
            )
        if self.characters:
            letters = np.frombuffer(" ".join(words).encode("utf-32-le", "surrogatepass"), np.dtype("<u4"))
            hashes += _rolled(letters.astype(np.uint64), (self.characters,), salt=2)
        return np.concatenate(hashes) if hashes else np.zeros(0, np.uint64)


def _rolled(items: NDArray[np.uint64], sizes: Sequence[int], *, salt: int) -> list[NDArray[np.uint64]]:
    """Hash the n-grams of a sequence for every n in ``sizes``; ``salt`` separates kinds of items."""
    hashes = []
    for n in sizes:
        length = max(len(items) - n + 1, 0)
        hashed = np.full(length, np.uint64(16 * n + salt))
        for start in range(n):
            hashed = (hashed + items[start : start + length]) * _STEP  # wraps: arithmetic modulo 2^64
            hashed = (hashed ^ (hashed >> np.uint64(30))) * _MIX[0]
            hashed = (hashed ^ (hashed >> np.uint64(27))) * _MIX[1]
        hashes.append(hashed ^ (hashed >> np.uint64(31)))
    return hashes
