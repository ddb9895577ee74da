"""The backward recursion behind returns, GAE and λ-returns: y_t = x_t + f_t y_{t+1}."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

__all__ = ["backward_sums"]


def backward_sums(
    x: NDArray[np.float64], offsets: NDArray[np.int64], factor: float | NDArray[np.float64]
) -> NDArray[np.float64]:
    """y_t = x_t + f_t y_{t+1} within each episode and y = x on its last turn, in time linear in N.

    >>> backward_sums(np.array([1.0, 1.0, 4.0, 8.0]), np.array([0, 2, 4]), 0.5)
    array([1.5, 1. , 8. , 8. ])

    Args:
        x: float64 (N,), the episodes one after another.
        offsets: int64 (G+1,). Episode i is ``offsets[i]:offsets[i+1]``.
        factor: f, one number for all turns or float64 (N,).
    """
    out: list[float] = []
    values = x[::-1].tolist()
    factors = np.broadcast_to(factor, x.shape)[::-1].tolist()
    bounds = (len(x) - offsets[::-1]).tolist()
    for begin, end in pairwise(bounds):  # episodes and turns from the last to the first
        if begin == end:
            continue
        total = values[begin]
        out.append(total)
        for value, f in zip(values[begin + 1 : end], factors[begin + 1 : end], strict=True):
            total = value + f * total
            out.append(total)
    return np.array(out[::-1], np.float64)
