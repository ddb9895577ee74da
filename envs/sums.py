"""Sums of floats that are the same number on every Python."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import reduce
from operator import add
from typing import Final

ROUNDING: Final = 1e-9  # relative to the size of the terms: what is smaller is a rounding error


def sum_in_order(numbers: Iterable[float]) -> float:
    """The sum of floats from left to right, each addition rounded; 0.0 of none.

    Up to Python 3.11 the built-in ``sum`` does this; from 3.12 on it compensates for rounding, and its last digits differ. So
    numbers that are recorded, or compared with recorded ones, are added here (or by ``math.fsum``).

    >>> sum_in_order([0.1] * 10)
    0.9999999999999999
    """
    return reduce(add, numbers, 0.0)


def settled_sum(numbers: Iterable[float]) -> float:
    """The sum of floats, exactly rounded, and 0.0 where it is within the rounding errors of its terms.

    Whether an episode's rewards reach a bound, or are positive in all, is decided with this sum everywhere. The errors of
    the terms are relative to their size, so the unit of the rewards does not matter.

    >>> settled_sum([0.1, 0.2, -0.3]), settled_sum([0.7, 0.2, 0.1, -1.0]) >= 0.0, settled_sum([4e-7, 0.0])
    (0.0, True, 4e-07)

    Raises:
        OverflowError: the sum exceeds float64.
    """
    terms = list(numbers)
    total = math.fsum(terms)
    return total if abs(total) > ROUNDING * max(map(abs, terms), default=0.0) else 0.0
