"""Boards as lists of cells: what stands where, as (row, column) from (0, 0) in the upper left corner."""

from __future__ import annotations

from typing import Final

from creditflow.envs.sokoban.rules import (
    BOX,
    BOX_ON_TARGET,
    EDGE,
    FLOOR,
    PLAYER,
    PLAYER_ON_TARGET,
    TARGET,
)

__all__ = ["COORDINATES_LEGEND", "coordinates"]

COORDINATES_LEGEND: Final = "a cell is (row, column), counted from (0, 0) in the upper left corner"
_PIECES: Final = (
    ("player", bytes((PLAYER, PLAYER_ON_TARGET))),
    ("boxes", bytes((BOX, BOX_ON_TARGET))),
    ("targets", bytes((TARGET, BOX_ON_TARGET, PLAYER_ON_TARGET))),
)
_OPEN: Final = bytes((FLOOR, TARGET, BOX_ON_TARGET, BOX, PLAYER, PLAYER_ON_TARGET))


def coordinates(board: bytes, *, walls: bool) -> str:
    """Return the cells of player, boxes and targets, one line each; a box on a target is in both lists.

    Args:
        board: cell codes of ``rules.py``.
        walls: also tell the size and the cells that are not walls, without which the state is not determined.
    """
    width = board.index(EDGE)
    lines = [f"{name}: {_cells(board, width, codes)}" for name, codes in _PIECES]
    if walls:
        rows = (len(board) + 1) // (width + 1)
        lines.append(
            f"open cells: {_cells(board, width, _OPEN)}; all others of {rows} rows and {width} columns are walls"
        )
    return "\n".join(lines)


def _cells(board: bytes, width: int, codes: bytes) -> str:
    places = [divmod(position, width + 1) for position, code in enumerate(board) if code in codes]
    return ", ".join(f"({row}, {column})" for row, column in places)
