"""Which rows are packed into one micro-batch: those with common prefixes together, within a budget of distinct tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from numpy.typing import NDArray

from creditflow.train.policy.packing.forest import sorted_prefixes

__all__ = ["KEYS_PER_TOKEN", "plan_packed"]

# Kernels that attend along paths gather every segment's keys and values, also those that segments share. Beyond this many per
# token of the budget a micro-batch is divided, though its distinct tokens would fit.
KEYS_PER_TOKEN: Final = 8
# fraction of the budget that a full micro-batch keeps when it is cut earlier, so that a group stays together
KEPT: Final = 0.5


def plan_packed(sequences: Sequence[NDArray[Any]], budget: int) -> list[list[int]]:
    """Indices of the sequences of every micro-batch, largest micro-batch first.

    The distinct prefixes of a micro-batch are at most ``budget`` tokens, or as many as its longest sequence has: that one must
    be computed anyway, and its prefixes then cost nothing. Sequences are taken in lexicographic order, and a micro-batch that
    is full is cut where neighbours share least, so that a group keeps its prompt.
    """
    order, shared = sorted_prefixes(sequences)
    lengths = [len(sequences[i]) for i in order]
    batches: list[tuple[int, list[int]]] = []
    start = 0
    while start < len(order):
        sizes, stop = _filled(lengths, shared, start, budget)
        if stop < len(order):
            stop = _best_cut(shared, sizes, start, stop, budget)
        batches.append((sizes[stop - start - 1], order[start:stop]))
        start = stop
    return [batch for _, batch in sorted(batches, key=lambda one: -one[0])]


def _filled(lengths: Sequence[int], shared: Sequence[int], start: int, budget: int) -> tuple[list[int], int]:
    """Distinct tokens after each sequence from ``start`` on, and the first sequence that does not fit any more."""
    sizes, longest, keys = [lengths[start]], lengths[start], lengths[start]
    for i in range(start + 1, len(lengths)):
        longest = max(longest, lengths[i])
        size = sizes[-1] + lengths[i] - shared[i]
        keys += lengths[i] + shared[i]  # a new segment's path, and that of the segment whose end the branch makes
        limit = max(budget, longest)
        if size > limit or keys > KEYS_PER_TOKEN * limit:
            return sizes, i
        sizes.append(size)
    return sizes, len(lengths)


def _best_cut(shared: Sequence[int], sizes: Sequence[int], start: int, stop: int, budget: int) -> int:
    """The last place before which a full micro-batch loses least: sequences on both sides share the shortest prefix."""
    cut = stop
    for i in range(stop - 1, start, -1):
        if sizes[i - start - 1] < KEPT * budget:
            break
        if shared[i] < shared[cut]:
            cut = i
    return cut
