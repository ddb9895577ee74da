"""A counter-based random generator: a number is a function of (seed, label, index), so any entity is made on its own.

SplitMix64 over integers: the same on every machine and NumPy version; vectorised for the graph, scalar for sentences.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from math import gcd
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["permuted_index", "random_int", "random_ints", "stream_key"]

_MASK: Final = (1 << 64) - 1
_GAMMA: Final = 0x9E3779B97F4A7C15
_M1: Final = 0xBF58476D1CE4E5B9
_M2: Final = 0x94D049BB133111EB


@lru_cache(maxsize=4096)
def stream_key(seed: int, label: str) -> int:
    """The 64-bit stream key of a label."""
    return int.from_bytes(blake2b(f"{seed}/{label}".encode(), digest_size=8).digest(), "big")


def random_int(key: int, index: int, n: int) -> int:
    """An integer below ``n`` (≤ 2³²)."""
    z = (key + (index + 1) * _GAMMA) & _MASK
    z = ((z ^ (z >> 30)) * _M1) & _MASK
    z = ((z ^ (z >> 27)) * _M2) & _MASK
    return (((z ^ (z >> 31)) >> 32) * n) >> 32


def random_ints(key: int, count: int, n: int | NDArray[np.int64]) -> NDArray[np.int64]:
    """int64 (count,): ``random_int(key, i, n)`` for i in 0..count−1; ``n`` may be an array (count,) of bounds."""
    z = np.uint64(key) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_GAMMA)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(_M1)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(_M2)
    high = (z ^ (z >> np.uint64(31))) >> np.uint64(32)
    return ((high * np.asarray(n, np.uint64)) >> np.uint64(32)).astype(np.int64)


@lru_cache(maxsize=256)
def _unit(size: int, key: int) -> int:
    factor = (key | 1) % size or 1
    while gcd(factor, size) != 1:
        factor = factor % size + 1
    return factor


def permuted_index(index: int, size: int, key: int) -> int:
    """A bijection of 0..size−1 (affine, with a factor coprime to ``size``) that scatters consecutive indices."""
    return (index * _unit(size, key) + key) % size
