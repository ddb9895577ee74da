"""A grid of symbols as a list of symbol positions, easier for small models.

Small models with rotary embeddings hardly learn the position of a symbol in a long text; they do learn names of cells, and
the list is shorter than the grid.
"""

from __future__ import annotations

from string import ascii_lowercase

from creditflow.agents.prompts.grids import grid_rows

__all__ = ["places"]


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
