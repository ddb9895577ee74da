"""Texts that are grids of symbols, with one row per line, and two lists of their symbols that small models learn from.

Small models with rotary embeddings hardly learn the position of a symbol in a long text; they do learn names of cells
(``places``). The effect of a move depends on the cells around the player, so with offsets from the player (``around``) they
learn from even fewer boards. That list leaves out distant walls, so two boards may have the same text: it is a prompt for
studies of learning, not a full observation.
"""

from __future__ import annotations

from string import ascii_lowercase
from typing import Final

__all__ = [
    "around",
    "grid_rows",
    "places",
]

MIN_SIZE: Final = 3
MAX_ROWS, MAX_COLUMNS = 26, 99  # a letter names a row, two digits a column
PLAYERS: Final = "APS"  # the agent in a grid, the player in Sokoban, and the player on a target
ON_TARGET: Final = {"S": "O"}  # the symbol under the player
WALL: Final = "#"  # also stands for cells outside the grid
FREE: Final = "._"
FREQUENT: Final = 3  # a symbol with at least this many cells is listed near the player only
NEAR: Final = 2  # in moves


def grid_rows(text: str) -> list[str] | None:
    """The rows without spaces; None if the text is not a grid whose rows have equal length and whose cells can be named."""
    rows = [row.replace(" ", "") for row in text.split("\n")]
    width = len(rows[0])
    fits = MIN_SIZE <= len(rows) <= MAX_ROWS and MIN_SIZE <= width <= MAX_COLUMNS
    return rows if fits and all(len(row) == width for row in rows) else None


def places(text: str) -> str:
    r"""List the position (row letter, column number) of every symbol but the most frequent one.

    An outer frame of one symbol is left out. Symbols are listed from rare to frequent, equally frequent ones by their
    code points; a text that is not a grid of single symbols is returned unchanged.

    >>> places("#####\n#__P#\n#_OX#\n#___#\n#####")
    'Ob2 Pa3 Xb3'
    """
    rows = grid_rows(text)
    if rows is None:
        return text
    frame = set(rows[0] + rows[-1] + "".join(row[0] + row[-1] for row in rows))
    if len(frame) == 1:
        rows = [row[1:-1] for row in rows[1:-1]]
    positions: dict[str, list[str]] = {}
    for letter, row in zip(ascii_lowercase, rows, strict=False):
        for column, symbol in enumerate(row, 1):
            positions.setdefault(symbol, []).append(f"{letter}{column}")
    most_frequent = max(positions, key=lambda symbol: (len(positions[symbol]), symbol))
    ordered = sorted((symbol for symbol in positions if symbol != most_frequent), key=lambda s: (len(positions[s]), s))
    return " ".join(symbol + position for symbol in ordered for position in positions[symbol])


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
