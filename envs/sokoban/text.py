"""Boards as text: which symbol stands for which cell, and what parts the cells.

Every one of the seven cell kinds has a symbol of its own, so a text never hides anything: the player on a target is
shown as such, not as a plain player.
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
    """Draws boards as text.

    Args:
        symbols: the name of a set in ``SYMBOL_SETS``, or seven different characters for wall, floor, target, box,
            box on target, player and player on target.
        separator: what stands between two cells of a row: "", or one character that is no symbol.

    Attributes:
        draw: the function from a board to its lines of symbols, without a final line break.

    Raises:
        ConfigError: symbols that repeat, or are too few or many; an unusable separator.
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
        # Rollouts of one task meet the same boards again and again.
        self.draw: Callable[[bytes], str] = lru_cache(maxsize=CACHED_BOARDS)(self._draw)

    @property
    def legend(self) -> str:
        """What each symbol means, in one line."""
        return ", ".join(f"{char} {meaning}" for char, meaning in zip(self.symbols, _MEANINGS, strict=True))

    def _draw(self, board: bytes) -> str:
        if not self.separator:
            return codecs.charmap_decode(board, "strict", self._table)[0]
        spaced = bytearray((_SEPARATOR,)) * (2 * len(board) - 1)
        spaced[::2] = board
        return codecs.charmap_decode(spaced, "strict", self._table)[0].replace(self._edge, "\n")
