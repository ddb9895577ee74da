"""Breadth-first search over all (box set, player cell) states of one room, vectorised with NumPy.

A state is the integer ``rank(boxes) * F + player``: ``rank`` numbers the k-subsets of the allowed box cells in
colexicographic order, F is the number of floor cells. One int16 array has the layer of every state, and marks the (box
set, player) pairs that are impossible because a box occupies the cell, so that one gather finds free new states.

Backwards from the solved states (walking back, and pulling), the layer is the exact fewest moves to the goal, for every
state at once, without a heuristic. Only cells from which a single box can reach some target are box cells there: with a
box anywhere else a state is dead.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import comb
from typing import Final

import numpy as np
import numpy.typing as npt

from creditflow.envs.errors import OracleLimitError

__all__ = ["DEFAULT_MEMORY", "StateTable", "reached_states", "solution_table"]

DEFAULT_MEMORY: Final = 256 * 2**20  # bytes for one table and its working arrays
BYTES_PER_STATE: Final = 6  # int16 layer, int32 mark
NEW: Final = -1
TAKEN: Final = -2
Ints = npt.NDArray[np.int64]


@lru_cache(maxsize=16)
def _subsets(n: int, k: int) -> npt.NDArray[np.int16]:
    """Return the k-subsets of range(n) in colexicographic order, ascending within a row: int16 (C(n, k), k)."""
    if k == 0:
        return np.zeros((1, 0), dtype=np.int16)
    smaller = _subsets(n - 1, k - 1)
    tops = np.arange(k - 1, n)
    counts = np.array([comb(int(top), k - 1) for top in tops])
    starts = np.cumsum(counts) - counts
    rows = np.empty((int(counts.sum()), k), dtype=np.int16)
    rows[:, -1] = np.repeat(tops, counts)
    rows[:, :-1] = smaller[np.arange(len(rows)) - np.repeat(starts, counts)]
    rows.setflags(write=False)
    return rows


class StateTable:
    """All states with k boxes on ``box_cells`` and the player on ``floor``; filled by ``search``.

    Args:
        floor: positions of the room's cells, ascending.
        offsets: position offsets of the four directions.
        box_cells: allowed positions of boxes, ascending, a subset of ``floor``.
        k: number of boxes.
        memory: memory limit in bytes.

    Attributes:
        needed: bytes of the table and its working arrays.
        layers: int16 (C(len(box_cells), k) * F,): steps from the sources, -1 not reached, -2 impossible.
        subsets: int16 (C(len(box_cells), k), k): indices into ``box_cells`` by rank.
        box_of_floor: index into ``box_cells`` by index into ``floor``, -1 if boxes are not allowed there.

    Raises:
        OracleLimitError: the table would exceed ``memory``.
    """

    def __init__(
        self, floor: Sequence[int], offsets: Sequence[int], box_cells: Sequence[int], k: int, memory: int
    ) -> None:
        self.k = k
        self.size = len(floor)
        self.allowed = len(box_cells)
        self.needed = comb(self.allowed, k) * (self.size * BYTES_PER_STATE + 2 * k)
        self.check_memory(memory)
        self.floor_index = {position: i for i, position in enumerate(floor)}
        self.box_index = {position: i for i, position in enumerate(box_cells)}
        self.neighbour = np.array(
            [[self.floor_index.get(position + offset, -1) for position in floor] for offset in offsets]
        )
        self.box_of_floor = np.array([self.box_index.get(position, -1) for position in floor])
        floor_of_box = np.array([self.floor_index[position] for position in box_cells], dtype=np.int64)
        self.subsets = _subsets(len(box_cells), k)
        self._choose = [[comb(n, i + 1) for n in range(len(box_cells))] for i in range(k)]
        self._choose_table = np.array(self._choose, dtype=np.int64).reshape(k, len(box_cells))
        self.layers = np.full(len(self.subsets) * self.size, NEW, dtype=np.int16)
        by_rank = self.layers.reshape(-1, self.size)
        for column in self.subsets.T:
            by_rank[np.arange(len(self.subsets)), floor_of_box[column]] = TAKEN

    def check_memory(self, memory: int) -> None:
        """Check that the search of this table fits into ``memory`` bytes.

        Raises:
            OracleLimitError: it needs more.
        """
        if self.needed > memory:
            raise OracleLimitError(
                f"the exact table of this level ({self.k} boxes on {self.allowed} cells, player on {self.size}) needs "
                f"{self.needed / 2**20:.0f} MiB, more than the limit of {memory / 2**20:.0f} MiB; raise oracle_memory_mb"
            )

    def rank(self, boxes: Sequence[int]) -> int:
        """Return the rank of a set of box positions; -1 if one is not a box cell."""
        try:
            indices = sorted([self.box_index[position] for position in boxes])
        except KeyError:
            return -1
        return sum([row[index] for row, index in zip(self._choose, indices, strict=True)])

    def layer(self, player: int, boxes: Sequence[int]) -> int:
        """Return the steps of a state given by positions; -1 if not reached."""
        rank = self.rank(boxes)
        return -1 if rank < 0 else int(self.layers[rank * self.size + self.floor_index[player]])

    def search(self, sources: Ints, *, backwards: bool) -> None:
        """Fill ``layers`` breadth-first from ``sources``, along forward or backward moves.

        Args:
            sources: int64 (n,): states of layer 0.
            backwards: undo moves, for the distance *to* the sources; else make them.

        Raises:
            OracleLimitError: a state is more than 32,767 moves away.
        """
        floor = np.arange(self.size)
        ahead, behind = self.neighbour, self.neighbour[[1, 0, 3, 2]]
        if backwards:  # the player steps back and pulls the box ahead into its own cell
            free, box_to, player_to = behind, np.broadcast_to(floor, ahead.shape), behind
        else:  # the player steps ahead and pushes the box there to the next cell
            free = np.where(ahead >= 0, np.take_along_axis(ahead, np.maximum(ahead, 0), axis=1), -1)
            box_to, player_to = free, ahead
        possible = (free >= 0) & (ahead >= 0)
        possible &= (self.box_of_floor[ahead] >= 0) & (self.box_of_floor[box_to] >= 0)
        walk_by = np.where(behind >= 0, behind - floor, 0)  # offset 0 gives the state itself, which is not new
        free_by = np.where(possible, free - floor, 0)
        box_by = np.where(possible, ahead - floor, 0)

        layers, size = self.layers, self.size
        mark = np.empty(len(layers), dtype=np.int32)
        states, depth = sources, 0
        layers[states] = 0
        while len(states):
            depth += 1
            if depth > np.iinfo(np.int16).max:
                raise OracleLimitError("a solution is longer than 32,767 moves")
            player = states % size
            walked = (states + walk_by[:, player]).ravel()
            walked = walked[layers[walked] == NEW]
            pushed = layers[states + box_by[:, player]] == TAKEN
            pushed &= layers[states + free_by[:, player]] != TAKEN
            direction, index = np.nonzero(pushed)
            if len(index):
                cell = player[index]
                subsets = self.subsets[states[index] // size]
                old = self.box_of_floor[ahead[direction, cell]]
                new = self.box_of_floor[box_to[direction, cell]]
                ranks = self.ranks(np.where(subsets == old[:, None], new[:, None], subsets))
                moved = ranks * size + player_to[direction, cell]
                walked = np.concatenate([walked, moved[layers[moved] == NEW]])
            order = np.arange(len(walked), dtype=np.int32)
            mark[walked] = order
            states = walked[mark[walked] == order]  # without repeats
            layers[states] = depth

    def ranks(self, subsets: npt.NDArray[np.int64]) -> Ints:
        """Return the ranks, int64 (n,), of rows of box indices (n, k) in any order within a row."""
        if self.k > 1:
            subsets = np.sort(subsets, axis=1)
        ranks: Ints = self._choose_table[0][subsets[:, 0]]
        for i in range(1, self.k):
            ranks = ranks + self._choose_table[i][subsets[:, i]]
        return ranks


def solution_table(
    floor: Sequence[int], offsets: Sequence[int], targets: Sequence[int], memory: int = DEFAULT_MEMORY
) -> StateTable:
    """Return the table of the fewest moves to the goal for every state of a room (-1: dead).

    Args:
        floor: positions of the room's cells, ascending.
        offsets: up, down, left, right.
        targets: positions of the targets in the room, at least one; there are as many boxes.
        memory: memory limit in bytes.

    Raises:
        OracleLimitError: the table would exceed ``memory``.
    """
    inside = set(floor)
    live, stack = set(targets), list(targets)
    while stack:
        box = stack.pop()
        for offset in offsets:
            pulled = box - offset
            if pulled in inside and pulled not in live and pulled - offset in inside:
                live.add(pulled)
                stack.append(pulled)
    table = StateTable(floor, offsets, sorted(live), len(targets), memory)
    goal = table.rank(targets) * table.size
    cells = np.arange(goal, goal + table.size)
    table.search(cells[table.layers[cells] == NEW], backwards=True)
    return table


def reached_states(
    floor: Sequence[int],
    offsets: Sequence[int],
    targets: Sequence[int],
    player: int,
    boxes: Sequence[int],
    memory: int = DEFAULT_MEMORY,
) -> tuple[int, int]:
    """Return the number of unsolved states that can be reached, and how many of them are dead (solved states end).

    Raises:
        OracleLimitError: a table would exceed ``memory``.
    """
    solutions = solution_table(floor, offsets, targets, memory)
    table = StateTable(floor, offsets, floor, len(boxes), memory)
    goal = table.rank(targets) * table.size
    ends = np.arange(goal, goal + table.size)
    table.layers[ends[table.layers[ends] == NEW]] = 0  # never new, so never entered
    start = table.rank(boxes) * table.size + table.floor_index[player]
    table.search(np.array([start]), backwards=False)
    reached = np.flatnonzero(table.layers >= 0)
    reached = reached[reached // table.size != goal // table.size]
    ranks, players = np.divmod(reached, table.size)
    boxes_there = solutions.box_of_floor[table.subsets[ranks]]
    possible = (boxes_there >= 0).all(axis=1)
    alive = solutions.layers[solutions.ranks(boxes_there[possible]) * table.size + players[possible]] >= 0
    return len(reached), len(reached) - int(np.count_nonzero(alive))
