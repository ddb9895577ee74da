"""Boards of many episodes in one array, and one move on each of them.

A move reads and writes at most three cells: the player's, the one ahead, and the one behind that. A table over the codes
of these three cells, made with ``rules.move`` itself, gives their codes afterwards and what happened, so one gather, one
look-up and one scatter move all boards.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from creditflow.envs.sokoban.levels.xsb import Level
from creditflow.envs.sokoban.rules import BOX_ON_TARGET, EDGE, PLAYER, PLAYER_ON_TARGET, WALL, grid, move

__all__ = ["GAINS", "GAIN_SHIFT", "MOVED", "NOTHING", "PUSH", "PUSHED", "Boards", "Start", "level_start"]

# What happened in a step, as bits; the bits above are the change of the number of boxes on targets, plus 1.
MOVED: Final = 1
PUSHED: Final = 2
GAIN_SHIFT: Final = 2
PUSH: Final = 512  # where boxes can be pushed, as the highest bit of the table's index
NOTHING: Final = 1 << GAIN_SHIFT  # a step that changed nothing
GAINS: Final = np.array([(event >> GAIN_SHIFT) - 1 for event in range(16)])  # by event
Codes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]


def _moves() -> npt.NDArray[np.uint32]:
    """Return the table of all moves: uint32 (1024,), four bytes each, by may-push, behind, ahead, here (1 + 3 * 3 bits).

    The bytes are the codes of the three cells afterwards (here, ahead, behind) and the event.
    """
    table = np.zeros((1024, 4), dtype=np.uint8)
    for index in range(1024):
        push, behind, ahead, square = index >> 9, index >> 6 & 7, index >> 3 & 7, index & 7
        table[index] = square, ahead, behind, NOTHING
        if square in (PLAYER, PLAYER_ON_TARGET):
            line = bytes([EDGE, square, ahead, behind, EDGE])
            after, _, moved, pushed, gain = move(line, 1, 1, bool(push))
            table[index] = *after[1:4], moved * MOVED | pushed * PUSHED | (gain + 1) << GAIN_SHIFT
    return table.view(np.uint32).ravel()


_TABLE: Final = _moves()


class Start(NamedTuple):
    """The initial state of a level.

    Attributes:
        codes: uint8 (height, width) of cell codes.
        row: row of the player.
        column: column of the player.
        boxes: number of boxes.
        on_target: number of boxes on targets.
    """

    codes: Codes
    row: int
    column: int
    boxes: int
    on_target: int


@lru_cache(maxsize=4096)
def level_start(level: Level) -> Start:
    """Return the initial state of a level."""
    row, column = divmod(level.player, level.width + 1)
    codes = grid(level.board, level.width)
    codes.setflags(write=False)
    return Start(codes, row, column, len(level.boxes), level.board.count(BOX_ON_TARGET))


class Boards:
    """N boards of one shape; a smaller level is in the upper left corner, and the rest is wall.

    Args:
        num_envs: number of boards, N.
        shape: rows and columns.

    Attributes:
        flat: uint8, all cells in one line, with a row of wall before and after, so that a cell behind an outer wall exists;
            replaced, never changed, by a move, so that whoever keeps an old one has the old boards.
        players: int64 (N,): index of the player's cell in ``flat``.
        sides: int64 (2, N): height and width of each level.
        boxes: int64 (N,): number of boxes.
        on_target: int64 (N,): number of boxes on targets.
    """

    def __init__(self, num_envs: int, shape: tuple[int, int]) -> None:
        self.num_envs, self.shape = num_envs, shape
        size = shape[0] * shape[1]
        self._origin = shape[1] + size * np.arange(num_envs)
        self.flat: Codes = np.full(num_envs * size + 2 * shape[1], WALL, dtype=np.uint8)
        self.players = self._origin.copy()
        self.sides = np.full((2, num_envs), 3)
        self.boxes, self.on_target = np.zeros((2, num_envs), dtype=np.int64)

    @property
    def codes(self) -> Codes:
        """The boards as they are now: a view, uint8 (N, rows, columns)."""
        return self.flat[self.shape[1] : -self.shape[1]].reshape(self.num_envs, *self.shape)

    def place(self, which: Sequence[int] | Ints, starts: Sequence[Start]) -> None:
        """Put the boards with these numbers into initial states that fit into the shape."""
        self.flat, self.players, self.sides = self.flat.copy(), self.players.copy(), self.sides.copy()
        self.boxes, self.on_target = self.boxes.copy(), self.on_target.copy()
        codes, columns = self.codes, self.shape[1]
        for number, start in zip(which, starts, strict=True):
            height, width = start.codes.shape
            if (height, width) != self.shape:
                codes[number] = WALL
            codes[number, :height, :width] = start.codes
            self.sides[:, number] = height, width
            self.players[number] = self._origin[number] + start.row * columns + start.column
            self.boxes[number], self.on_target[number] = start.boxes, start.on_target

    def position(self, number: int) -> tuple[int, int]:
        """Return row and column of a player."""
        row, column = divmod(int(self.players[number] - self._origin[number]), self.shape[1])
        return row, column

    def move(self, offsets: Ints, push: Ints) -> Codes:
        """Move every player by one cell, or not (offset 0); return what happened, uint8 (N,): ``MOVED``, ``PUSHED``, gain.

        Args:
            offsets: int64 (N,): 0, or one of ±1 and ± the number of columns.
            push: int64 (N,): ``PUSH`` where boxes can be pushed, else 0.
        """
        cells = np.empty((3, self.num_envs), dtype=np.int64)
        cells[0] = self.players
        np.add(self.players, offsets, out=cells[1])
        np.add(cells[1], offsets, out=cells[2])
        before = self.flat.take(cells)
        index = before[2].astype(np.int64)
        for codes in (before[1], before[0]):
            index <<= 3
            index |= codes
        index |= push
        entries: Codes = _TABLE.take(index).view(np.uint8).reshape(-1, 4)
        events: Codes = entries[:, 3]
        self.flat = self.flat.copy()
        self.flat[cells] = entries[:, :3].T
        self.players = self.players + offsets * (events & MOVED)
        self.on_target = self.on_target + GAINS.take(events)
        return events

    def texts(self, which: Ints) -> list[bytes]:
        """Return the boards with these numbers as ``rules.py`` writes them, each of its level's own size."""
        codes, sides = self.codes[which], self.sides[:, which]
        texts: list[bytes] = [b""] * len(codes)
        for height, width in dict.fromkeys(zip(*sides.tolist(), strict=True)):
            alike = np.flatnonzero((sides[0] == height) & (sides[1] == width))
            lines = np.full((len(alike), height, width + 1), EDGE, dtype=np.uint8)
            lines[:, :, :width] = codes[alike, :height, :width]
            line, size = lines.tobytes(), height * (width + 1)
            for position, number in enumerate(alike.tolist()):
                texts[number] = line[position * size : (position + 1) * size - 1]
        return texts
