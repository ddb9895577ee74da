"""How often a simulated search returns noisy documents, and whether it does for one query.

ZeroSearch (Sun et al. 2025, arXiv 2505.04588): at training step i of m the probability of noisy documents is
p_i = p_s + (b^(i/m) − 1) / (b − 1) · (p_e − p_s), with b = 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from creditflow.envs.errors import ConfigError, short_repr

__all__ = ["Curriculum", "is_noisy"]

_LINEAR: Final = 1e-9  # |b − 1| below which the curve is its limit, a straight line


@dataclass(frozen=True, slots=True, kw_only=True)
class Curriculum:
    """The probability of noisy documents over a training run.

    >>> [round(Curriculum(start=0.0, end=0.6).at(progress), 12) for progress in (0.0, 0.5, 1.0)]
    [0.0, 0.2, 0.6]

    Attributes:
        start, end: p_s and p_e, in [0, 1]; equal ones for a constant.
        base: b > 0; the larger it is, the later the noise comes; 1 for a straight line.

    Raises:
        ConfigError: a number out of its range.
    """

    start: float = 0.0
    end: float = 0.5
    base: float = 4.0

    def __post_init__(self) -> None:
        numbers = (self.start, self.end, self.base)
        if not all(type(number) in (int, float) and -math.inf < number < math.inf for number in numbers):
            raise ConfigError(f"start, end and base of a simulation are numbers, got {short_repr(numbers)}")
        if not (0.0 <= self.start <= 1.0 and 0.0 <= self.end <= 1.0 and 0.0 < self.base <= 1e6):
            raise ConfigError(
                "start and end of a simulation are probabilities, and base is above 0 and at most 1e6, got "
                f"{short_repr(self.start)}, {short_repr(self.end)} and {short_repr(self.base)}"
            )

    def at(self, progress: float) -> float:
        """The probability of noisy documents.

        Args:
            progress: i / m, the fraction of the training run that is done; above 1 counts as 1.
        """
        x = min(max(progress, 0.0), 1.0)
        linear = abs(self.base - 1.0) < _LINEAR
        rise = x if linear else math.expm1(x * math.log(self.base)) / (self.base - 1.0)
        return self.start + rise * (self.end - self.start)


def is_noisy(seed: int, question: str, query: str, probability: float, call: str = "") -> bool:
    """Whether a query gets noisy documents: a function of its arguments alone.

    Without ``call``, rollouts of a question that search for the same find the same, as with an engine. What is noisy at one
    probability is noisy at every higher one.

    Args:
        seed: seed of the simulation.
        question: id of the question.
        query: the query.
        probability: of noisy documents, in [0, 1].
        call: names a call, for a draw of its own.
    """
    drawn = "\0".join([str(seed), question, query, *([call] if call else [])])
    digest = blake2b(drawn.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big") < probability * 2.0**64
