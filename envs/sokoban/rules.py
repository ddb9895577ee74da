"""The rules of Sokoban as pure functions of immutable boards.

A board is a ``bytes`` object of cell codes, row after row, with one ``EDGE`` code between two rows: a move is an offset
into it, and in text the ``EDGE`` is the line break. The rules know no episodes, rewards, step limits or agents.

The codes 0 to 5 are gym-sokoban's, which has no code for a player on a target; the code 6 makes the board alone the
whole state.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = [
    "BOX",
    "BOX_ON_TARGET",
    "EDGE",
    "FLOOR",
    "PLAYER",
    "PLAYER_ON_TARGET",
    "TARGET",
    "WALL",
    "direction_offsets",
    "grid",
    "move",
    "solved",
    "state_key",
    "to_cell",
    "to_position",
]

WALL: Final = 0
FLOOR: Final = 1
TARGET: Final = 2
BOX_ON_TARGET: Final = 3
BOX: Final = 4
PLAYER: Final = 5
PLAYER_ON_TARGET: Final = 6
EDGE: Final = 7

# The code of a cell after something entered or left it; entering a box's cell pushes the box out of it.
_PLAYER_ENTERS: Final = bytes([WALL, PLAYER, PLAYER_ON_TARGET, PLAYER_ON_TARGET, PLAYER, WALL, WALL, WALL])
_PLAYER_LEAVES: Final = bytes([WALL, WALL, WALL, WALL, WALL, FLOOR, TARGET, WALL])
_OPEN: Final = (FLOOR, TARGET)
_BOXES: Final = (BOX, BOX_ON_TARGET)
_BOX_ENTERS: Final = bytes([WALL, BOX, BOX_ON_TARGET, WALL, WALL, WALL, WALL, WALL])


def direction_offsets(width: int) -> tuple[int, int, int, int]:
    """Return the position offsets of up, down, left and right on boards of this width."""
    return -(width + 1), width + 1, -1, 1


def move(board: bytes, player: int, offset: int, push: bool = True) -> tuple[bytes, int, bool, bool, int]:
    """Move the player by one cell, pushing a box if there is one and it can move.

    Args:
        board: cell codes; the player's room must be enclosed by walls.
        player: position of the player in ``board``.
        offset: one of ``direction_offsets``.
        push: whether boxes can be pushed; False for gym-sokoban's actions 5 to 8.

    Returns:
        The board (the same object after a bump) and the player's position afterwards; whether the player moved, and
        whether a box did; the change of the number of boxes on targets, -1, 0 or 1. A plain tuple, for speed.
    """
    target = player + offset
    ahead = board[target]
    if ahead in _OPEN:
        after = bytearray(board)
        after[player] = _PLAYER_LEAVES[board[player]]
        after[target] = _PLAYER_ENTERS[ahead]
        return bytes(after), target, True, False, 0
    if push and ahead in _BOXES:
        behind = target + offset
        landing = board[behind]
        if landing in _OPEN:
            after = bytearray(board)
            after[player] = _PLAYER_LEAVES[board[player]]
            after[target] = _PLAYER_ENTERS[ahead]
            after[behind] = _BOX_ENTERS[landing]
            return bytes(after), target, True, True, (landing == TARGET) - (ahead == BOX_ON_TARGET)
    return board, player, False, False, 0


def solved(board: bytes) -> bool:
    """Return whether every box is on a target (levels have as many boxes as targets)."""
    return BOX not in board


@lru_cache(maxsize=16384)
def state_key(board: bytes) -> str:
    """Return 32 hex digits, a digest of walls, targets, boxes and player: equal for equal boards, in every process."""
    return blake2b(board, digest_size=16).hexdigest()


def to_cell(position: int, width: int) -> int:
    """Return ``row * width + column`` of a position in a board."""
    return position - position // (width + 1)


def to_position(cell: int, width: int) -> int:
    """Return the position in a board of the cell ``row * width + column``."""
    return cell + cell // width


def grid(board: bytes, width: int) -> npt.NDArray[np.uint8]:
    """Return the board as a new uint8 array (height, width) of codes 0 to 6."""
    return np.frombuffer(board + b"\x07", dtype=np.uint8).reshape(-1, width + 1)[:, :width].copy()
