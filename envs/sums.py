"""Sums of floats that are the same number on every Python."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import add


def sum_in_order(numbers: Iterable[float]) -> float:
    """The sum of floats from left to right, each addition rounded; 0.0 of none.

    Up to Python 3.11 the built-in ``sum`` does this; from 3.12 on it compensates for rounding, and its last digits differ. So
    numbers that are recorded, or compared with recorded ones, are added here (or by ``math.fsum``).

    >>> sum_in_order([0.1] * 10)
    0.9999999999999999
    """
    return reduce(add, numbers, 0.0)
