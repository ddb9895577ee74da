"""Random choices over raw 64-bit draws, whose streams NumPy keeps stable: a seed is the same house on every machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

__all__ = ["Draws"]

T = TypeVar("T")


class Draws:
    """A stream of random choices.

    Args:
        seed: non-negative integers.
    """

    def __init__(self, seed: Sequence[int]) -> None:
        self._raw: Callable[[], int] = np.random.PCG64(list(seed)).random_raw

    def below(self, n: int) -> int:
        """An integer in [0, n)."""
        return (int(self._raw()) * n) >> 64

    def happens(self, odds: Sequence[int]) -> bool:
        """True with a probability of ``odds[0] / odds[1]``."""
        return self.below(odds[1]) < odds[0]

    def pick(self, options: Sequence[T]) -> T:
        """An option, uniformly."""
        return options[self.below(len(options))]

    def weighted(self, weights: Mapping[T, int]) -> T:
        """A key, with a probability proportional to its weight."""
        remaining = self.below(sum(weights.values()))
        for option, weight in weights.items():
            remaining -= weight
            if remaining < 0:
                return option
        raise AssertionError("a draw is below the sum of the weights")

    def count(self, histogram: Sequence[int], least: int = 0) -> int:
        """A number of at least ``least``, as often as the histogram counts it; ``least`` if it counts none."""
        weights = {number: times for number, times in enumerate(histogram) if number >= least and times}
        return self.weighted(weights) if weights else least
