"""Boards as text: symbols of cells, and the separator between them.

Each of the seven kinds of cells has a symbol of its own, so a text shows the whole state, a player on a target too.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from creditflow.envs.errors import ConfigError, short_repr

__all__ = ["SYMBOL_SETS", "TextView"]

# wall, floor, target, box, box on target, player, player on target
SYMBOL_SETS: Final[Mapping[str, str]] = {
    "unicode": "#_OX√PS",
    "ascii": "#_OX*PS",
    "xsb": "#-.$*@+",
}
_MEANINGS: Final = ("wall", "floor", "target", "box", "box on target", "player", "player on target")
_SEPARATOR: Final = 8
CACHED_BOARDS: Final = 4096


class TextView:
    """Renders boards as text.

    Args:
        symbols: the name of a set in ``SYMBOL_SETS``, or seven different characters for wall, floor, target, box,
            box on target, player and player on target.
        separator: "", or one character between two cells of a row that is not a symbol.

    Attributes:
        draw: function from a board to its lines of symbols, without a final line break.

    Raises:
        ConfigError: symbols that repeat, too few or too many symbols, an invalid separator.
    """

    def __init__(self, symbols: str = "unicode", separator: str = " ") -> None:
        chars = SYMBOL_SETS.get(symbols, symbols) if isinstance(symbols, str) else ""
        if len(chars) != 7 or len(set(chars)) != 7 or not chars.isprintable() or "\ufffe" in chars:
            raise ConfigError(
                f"symbols must be one of {', '.join(SYMBOL_SETS)} or seven different printable characters for "
                f"{', '.join(_MEANINGS)}; got {short_repr(symbols)}"
            )
        if not isinstance(separator, str) or len(separator) > 1 or separator in ("\n", "\r", "\ufffe"):
            raise ConfigError(
                f"separator must be '' or one character other than a line break, got {short_repr(separator)}"
            )
        if separator and separator in chars:
            raise ConfigError(f"the separator {separator!r} is also a symbol; choose another")
        self.symbols = chars
        self.separator = separator
        wall, floor, target, box, stored, player, standing = tuple(chars)
        self._table = f"{wall}{floor}{target}{stored}{box}{player}{standing}\n{separator}"
        self._edge = f"{separator}\n{separator}"
        # Rollouts of one task visit the same boards many times.
        self.draw: Callable[[bytes], str] = lru_cache(maxsize=CACHED_BOARDS)(self._draw)

    @property
    def legend(self) -> str:
        """The meaning of each symbol, in one line."""
        return ", ".join(f"{char} {meaning}" for char, meaning in zip(self.symbols, _MEANINGS, strict=True))

    def _draw(self, board: bytes) -> str:
        if not self.separator:
            return codecs.charmap_decode(board, "strict", self._table)[0]
        spaced = bytearray((_SEPARATOR,)) * (2 * len(board) - 1)
        spaced[::2] = board
        return codecs.charmap_decode(spaced, "strict", self._table)[0].replace(self._edge, "\n")
