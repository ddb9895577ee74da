"""Exact and step-down tests."""

from __future__ import annotations

from math import comb

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["holm", "sign_test"]


def sign_test(more: int, less: int) -> float:
    """Two-sided exact p-value of the sign test, from the numbers of positive and of negative differences; ties are left out.

    >>> sign_test(5, 0)
    0.0625
    """
    n = more + less
    tail = sum(comb(n, k) for k in range(min(more, less) + 1))
    return float(min(1.0, 2 * tail / 2**n))


def holm(p_values: ArrayLike) -> list[float]:
    """P-values with Holm's step-down adjustment (1979): rejecting those below α keeps the family-wise error rate at most α.

    A NaN counts as 1 and stays NaN.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")  # NaN last
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(steps, 1.0)
    return [float(x) for x in adjusted]
