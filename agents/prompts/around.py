"""A grid of symbols as seen by the player: a list of symbols with their offsets from the player.

The effect of a move depends on the cells around the player, not on the player's position on the board, so with offsets a
small model learns from fewer boards than with positions (see ``places``). The list leaves out distant walls, so two boards may
have the same text: it is a prompt for studies of learning, not a full observation.
"""

from __future__ import annotations

from typing import Final

from creditflow.agents.prompts.grids import grid_rows

__all__ = ["around"]

PLAYERS: Final = "APS"  # the agent in a grid, the player in Sokoban, and the player on a target
ON_TARGET: Final = {"S": "O"}  # the symbol under the player
WALL: Final = "#"  # also stands for cells outside the grid
FREE: Final = "._"
FREQUENT: Final = 3  # a symbol with at least this many cells is listed near the player only
NEAR: Final = 2  # in moves


def around(text: str) -> str:
    r"""List the symbols around the player, nearest first, each with its offset in cells: up or down, then left or right.

    Free cells are left out. Walls, cells outside the grid, and symbols with three cells or more are listed within two moves
    only. A text that is not a grid with one player is returned unchanged.

    >>> around("#####\n#__P#\n#_OX#\n#___#\n#####")
    'Xd1 #u1 #r1 Od1l1 #u2 #u1l1 #u1r1 #r2 #d1r1'
    """
    rows = grid_rows(text)
    if rows is None or sum(text.count(player) for player in PLAYERS) != 1:
        return text
    width, symbols = len(rows[0]), "".join(rows)
    at = next(i for i, symbol in enumerate(symbols) if symbol in PLAYERS)
    player_row, player_column = divmod(at, width)
    symbols_around = [(0, ON_TARGET[symbols[at]], 0, 0)] if symbols[at] in ON_TARGET else []
    for down in range(-max(player_row, NEAR), max(len(rows) - player_row, NEAR + 1)):
        for right in range(-max(player_column, NEAR), max(width - player_column, NEAR + 1)):
            row, column, moves = player_row + down, player_column + right, abs(down) + abs(right)
            inside = 0 <= row < len(rows) and 0 <= column < width
            symbol = rows[row][column] if inside else WALL
            everywhere = symbol != WALL and symbols.count(symbol) < FREQUENT
            if moves and symbol not in FREE and (everywhere or moves <= NEAR):
                symbols_around.append((moves, symbol, down, right))
    symbols_around.sort(key=lambda entry: (entry[0], symbols.count(entry[1]), *entry[1:]))
    return " ".join(symbol + _offset(down, "ud") + _offset(right, "lr") for _, symbol, down, right in symbols_around)


def _offset(cells: int, names: str) -> str:
    """A direction and a number of cells; "" for 0."""
    return f"{names[cells > 0]}{abs(cells)}" if cells else ""
