"""A forest of token sequences: every token whose whole prefix is the same in several sequences occurs once.

A causal model computes the same for a token wherever its prefix is the same: the shared prompt of a group, the earlier turns
of an append-only episode in rows per turn, the part of a branched episode before its branch. Sequences in lexicographic order
stand beside those they share most with, so the forest is read off their longest common prefixes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["KEYS_PER_TOKEN", "Forest", "plan_packed", "sorted_prefixes"]


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """Distinct prefixes of sequences as tokens, in depth-first order, divided into segments.

    A segment is a run of tokens without a branch. It attends to itself, causally, and to all tokens of its ancestors; its
    descendants are the tokens that follow it.

    Attributes:
        ids, positions: int64 (T,), the tokens, and their positions in the sequences that contain them.
        starts, stops: int64 (S,), first token of every segment, and one past its last.
        ends: int64 (S,), one past the last token of every segment's descendants.
        parents: int64 (S,), the segment before it on its path; -1 for roots.
        places: one int64 (L,) array per sequence: the tokens that it consists of, ascending.
    """

    ids: NDArray[np.int64]
    positions: NDArray[np.int64]
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    ends: NDArray[np.int64]
    parents: NDArray[np.int64]
    places: list[NDArray[np.int64]]

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def of(cls, sequences: Sequence[NDArray[Any]]) -> Forest:
        """The forest of some sequences of token ids ≥ 0, each of at least one token.

        >>> forest = Forest.of([np.array([7, 8, 5]), np.array([7, 8]), np.array([7, 8, 9, 9])])
        >>> forest.ids.tolist(), forest.positions.tolist(), forest.starts.tolist(), forest.parents.tolist()
        ([7, 8, 5, 9, 9], [0, 1, 2, 2, 3], [0, 2, 3], [-1, 0, 0])
        >>> [places.tolist() for places in forest.places]
        [[0, 1, 2], [0, 1], [0, 1, 3, 4]]
        """
        order, shared = sorted_prefixes(sequences)
        places: list[NDArray[np.int64]] = [np.zeros(0, np.int64)] * len(sequences)
        path = np.zeros(0, np.int64)  # of the sequence before
        first: set[int] = set()
        suffixes: list[NDArray[Any]] = []
        size = 0
        for i, depth in zip(order, shared, strict=True):
            new = sequences[i][depth:]
            if depth < len(path) or not size:  # a branch; otherwise the sequence continues the one before
                first.update(([int(path[depth])] if depth < len(path) else []) + [size])
            path = np.concatenate([path[:depth], np.arange(size, size + len(new))])
            places[i] = path
            suffixes.append(new)
            size += len(new)
        ids, positions = np.concatenate(suffixes).astype(np.int64), np.empty(size, np.int64)
        for path_of_row in places:
            positions[path_of_row] = np.arange(len(path_of_row))
        starts = np.array(sorted(first), np.int64)
        stops = np.append(starts[1:], size)
        return cls(ids, positions, starts, stops, *_relations(positions[starts], starts, stops), places)

    def path(self, segment: int) -> NDArray[np.int64]:
        """int64: the tokens of a segment and of its ancestors, by position."""
        segments = []
        while segment >= 0:
            segments.append(np.arange(self.starts[segment], self.stops[segment]))
            segment = int(self.parents[segment])
        return np.concatenate(segments[::-1])


def _relations(
    depths: NDArray[np.int64], starts: NDArray[np.int64], stops: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ends of the descendants and parents, from the depths at which segments in depth-first order begin."""
    parents = np.full(len(depths), -1, np.int64)
    ends = np.full(len(depths), stops[-1], np.int64)
    last = depths + stops - starts
    above: list[int] = []
    for segment, depth in enumerate(depths.tolist()):
        while above and last[above[-1]] > depth:
            ends[above.pop()] = starts[segment]
        if above:
            parents[segment] = above[-1]
        above.append(segment)
    return ends, parents


def sorted_prefixes(sequences: Sequence[NDArray[Any]]) -> tuple[list[int], list[int]]:
    """Lexicographic order of sequences, and the length of the prefix that each shares with the one before (0 for the first).

    >>> sorted_prefixes([np.array([1, 3]), np.array([1, 2, 5]), np.array([1, 2]), np.array([0])])
    ([3, 2, 1, 0], [0, 0, 2, 1])
    """
    # big-endian bytes compare as the ids do
    keys = [np.asarray(sequence).astype(">u4").tobytes() for sequence in sequences]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    neighbours = [_common(sequences[before], sequences[after]) for before, after in pairwise(order)]
    return order, [0, *neighbours] if order else []


def _common(a: NDArray[Any], b: NDArray[Any]) -> int:
    """Length of the longest common prefix."""
    size = min(len(a), len(b))
    differs = a[:size] != b[:size]
    return int(differs.argmax()) if differs.any() else size


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
    return [batch for _, batch in sorted(batches, key=lambda sized: -sized[0])]


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
