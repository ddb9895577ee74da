"""A test of whether a key merges different states: whether the next temporal difference depends on how the key was entered."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers.credit.normalize import TIE_TOLERANCE
from creditflow.wrappers.records.arrays import run_lengths, run_starts
from creditflow.wrappers.records.branches import EpisodeIndex

__all__ = ["entry_statistic", "preceding_turns"]

Floats = NDArray[np.float64]
_ROUNDING: Final = 1.0 - 1e-9  # so that F does not exceed a round threshold by rounding alone


def preceding_turns(episodes: EpisodeIndex, trajectory: NDArray[np.int32]) -> NDArray[np.int64]:
    """int64 (N,): the stored turn before each turn (of an ancestor for a branch's first one); −1 at the start of an episode.

    Args:
        episodes: the full episodes of the group.
        trajectory: int32 (N,), the trajectory that stores each turn.
    """
    inner = episodes.own > episodes.offsets[trajectory]
    return np.where(inner, episodes.stored[episodes.own - inner], -1)


def entry_statistic(
    state: NDArray[np.int32],
    pair: NDArray[np.int64],
    preceding: NDArray[np.int64],
    difference: Floats,
    size: int,
    *,
    unit: Floats,
) -> Floats:
    """F statistic of a one-way analysis of variance by key: its entries, grouped by the preceding (key, action) pair.

    Let x be the temporal difference of the turn after an entry, n the number of entries of a key, m the number of preceding
    pairs, n_e the entries from pair e, and x̄ and x̄_e the means:

        F = [Σ_e n_e (x̄_e − x̄)² / (m − 1)] / [Σ (x − x̄_e)² / (n − m)]

    In a Markov key x does not depend on the pair, and F is near 1, whether or not the environment is deterministic. The
    first turns of episodes do not count as entries.

    Args:
        state: int32 (N,), the key before each turn.
        pair: int64 (N,), number of each turn's (key, action) pair.
        preceding: int64 (N,), the turn before each turn; −1 if there is none.
        difference: float64 (N,), δ of each turn.
        size: K.
        unit: the largest absolute value; deviations below 1e-9 of it are rounding errors.

    Returns:
        float64 (K,): F; 0 where all x are equal, or where it is undefined (m < 2 or n = m); inf where they differ between
        pairs only.
    """
    entered = (preceding >= 0).nonzero()[0]
    by = pair[preceding[entered]]
    code = state[entered].astype(np.int64) * (int(pair.max(initial=0)) + 1) + by
    order = np.argsort(code, kind="stable")
    code, key, x = code[order], state[entered][order], difference[entered][order]
    if not len(x):
        return np.zeros(size)
    first = run_starts(code)
    count = run_lengths(first, len(x))
    mean = np.add.reduceat(x, first) / count
    keys = key[first]
    n, m = np.bincount(key, minlength=size), np.bincount(keys, minlength=size)
    centre = np.bincount(key, x, minlength=size) / np.maximum(n, 1)
    between = np.bincount(keys, count * (mean - centre[keys]) ** 2, minlength=size) / np.maximum(m - 1, 1)
    within = np.bincount(key, (x - np.repeat(mean, count)) ** 2, minlength=size) / np.maximum(n - m, 1)
    differs = (m >= 2) & (n > m) & (between > (TIE_TOLERANCE * unit) ** 2)
    constant = within <= (TIE_TOLERANCE * unit) ** 2
    ratio = _ROUNDING * between / np.where(constant, 1.0, within)
    return np.where(differs, np.where(constant, np.inf, ratio), 0.0)
