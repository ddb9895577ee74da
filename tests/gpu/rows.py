"""Rows of random tokens for checks and measurements."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.train.policy.samples import Row

__all__ = ["HIGHEST", "LOWEST", "random_row", "rows_with_prompt", "uneven_rows"]

LOWEST, HIGHEST = 10, 250  # token ids that every tokenizer here has
OLD_LOGPROB: Final = -5.0


def random_row(rng: np.random.Generator, length: int, target: NDArray[Any], trajectory: int) -> Row:
    """A row of ``length`` random tokens; ``target``, int (N,), are the positions in the loss; advantages are normal."""
    n = len(target)
    ids = rng.integers(LOWEST, HIGHEST, length).astype(np.int32)
    sampler = np.full(n, OLD_LOGPROB, np.float32)
    return Row(ids, target, rng.normal(size=n), sampler, np.zeros(n, np.int32), trajectory)


def uneven_rows() -> list[Row]:
    """Twelve rows of 4 to 59 tokens that share nothing, a third of the tokens in the loss."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(4, 60, 12).tolist()
    return [
        random_row(rng, n, np.sort(rng.choice(np.arange(1, n), max(1, n // 3), replace=False)), i)
        for i, n in enumerate(lengths)
    ]


def rows_with_prompt(
    rng: np.random.Generator, count: int, prompt: int, longest: int, *, shared: bool = True, first: int = 0
) -> list[Row]:
    """Rows of a group: a prompt of random tokens, the same for all if shared, and 1 to ``longest`` tokens in the loss.

    Args:
        rng: draws tokens and lengths; the lengths do not depend on ``shared``.
        count: number of rows.
        prompt: tokens of the prompt.
        longest: tokens of the longest response.
        shared: whether all have one prompt; other prompts of the same length differ from their first token on.
        first: trajectory of the first row.
    """
    lengths, rows = prompt + rng.integers(1, longest + 1, count), []
    start = rng.integers(LOWEST, HIGHEST, prompt).astype(np.int32)
    for i, length in enumerate(lengths.tolist()):
        row = random_row(rng, length, np.arange(prompt, length), first + i)
        row.ids[:prompt] = start if shared else np.roll(start, i + 1)
        if not shared:
            row.ids[0] = LOWEST + i % (HIGHEST - LOWEST)
        rows.append(row)
    return rows
