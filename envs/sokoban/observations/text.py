"""Boards as text: a grid of symbols with a separator between them, lists of coordinates, or both.

Each of the seven kinds of cells has a symbol of its own, so a text shows the whole state, a player on a target too.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from creditflow.envs.errors import ConfigError, check_name, short_repr
from creditflow.envs.sokoban.rules import BOX, BOX_ON_TARGET, EDGE, FLOOR, PLAYER, PLAYER_ON_TARGET, TARGET

__all__ = ["COORDINATES_LEGEND", "SYMBOL_SETS", "TEXT_FORMATS", "TextView", "coordinates"]

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


TEXT_FORMATS: Final = ("grid", "coordinates", "grid_coordinates")

# wall, floor, target, box, box on target, player, player on target
SYMBOL_SETS: Final[Mapping[str, str]] = {"unicode": "#_OX√PS", "ascii": "#_OX*PS", "xsb": "#-.$*@+"}
_MEANINGS: Final = ("wall", "floor", "target", "box", "box on target", "player", "player on target")
_SEPARATOR: Final = 8
CACHED_BOARDS: Final = 4096


class TextView:
    """Renders boards as text.

    Args:
        symbols: the name of a set in ``SYMBOL_SETS``.
        separator: "", or one character between two cells of a row that is not a symbol.
        text_format: "grid" (the symbols), "coordinates" (lists of cells) or "grid_coordinates" (both).

    Attributes:
        draw: function from a board to its text, without a final line break.

    Raises:
        ConfigError: an unknown set, an invalid separator or format.
    """

    def __init__(self, symbols: str = "unicode", separator: str = " ", text_format: str = "grid") -> None:
        check_name("set of symbols", symbols, SYMBOL_SETS)
        chars = SYMBOL_SETS[symbols]
        if not isinstance(separator, str) or len(separator) > 1 or separator in ("\n", "\r", "\ufffe"):
            raise ConfigError(
                f"separator must be '' or one character other than a line break, got {short_repr(separator)}"
            )
        if separator and separator in chars:
            raise ConfigError(f"the separator {separator!r} is also a symbol; choose another")
        check_name("text_format", text_format, TEXT_FORMATS)
        self.text_format = text_format
        self.symbols = chars
        self.separator = separator
        wall, floor, target, box, stored, player, standing = tuple(chars)
        self._table = f"{wall}{floor}{target}{stored}{box}{player}{standing}\n{separator}"
        self._edge = f"{separator}\n{separator}"
        # Rollouts of one task visit the same boards many times.
        draw = {"grid": self._grid, "coordinates": self._coordinates, "grid_coordinates": self._both}[text_format]
        self.draw: Callable[[bytes], str] = lru_cache(maxsize=CACHED_BOARDS)(draw)

    @property
    def legend(self) -> str:
        """The meaning of each symbol, and of coordinates, in one line."""
        symbols = ", ".join(f"{char} {meaning}" for char, meaning in zip(self.symbols, _MEANINGS, strict=True))
        if self.text_format == "grid":
            return symbols
        return COORDINATES_LEGEND if self.text_format == "coordinates" else f"{symbols}; {COORDINATES_LEGEND}"

    def _coordinates(self, board: bytes) -> str:
        return coordinates(board, walls=True)

    def _both(self, board: bytes) -> str:
        return f"{self._grid(board)}\n\n{coordinates(board, walls=False)}"

    def _grid(self, board: bytes) -> str:
        if not self.separator:
            return codecs.charmap_decode(board, "strict", self._table)[0]
        spaced = bytearray((_SEPARATOR,)) * (2 * len(board) - 1)
        spaced[::2] = board
        return codecs.charmap_decode(spaced, "strict", self._table)[0].replace(self._edge, "\n")
