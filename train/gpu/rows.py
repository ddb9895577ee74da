"""Rows of random tokens for checks and measurements."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.train.policy.samples import Row

__all__ = ["HIGHEST", "LOWEST", "random_row"]

LOWEST, HIGHEST = 10, 250  # token ids that every tokenizer here has
OLD_LOGPROB: Final = -5.0


def random_row(rng: np.random.Generator, length: int, target: NDArray[Any], trajectory: int) -> Row:
    """A row of ``length`` random tokens; ``target``, int (N,), are the positions in the loss; advantages are normal."""
    n = len(target)
    ids = rng.integers(LOWEST, HIGHEST, length).astype(np.int32)
    sampler = np.full(n, OLD_LOGPROB, np.float32)
    return Row(ids, target, rng.normal(size=n), sampler, np.zeros(n, np.int32), trajectory)
