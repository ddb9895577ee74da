"""A grid of symbols as a list of places: what a model without a sense of position can read.

Where a symbol stands in a long text is hard to learn for a small model with rotary positions; a name for every place
is not, and the list is shorter than the grid.
"""

from __future__ import annotations

from string import ascii_lowercase

__all__ = ["places"]

SMALLEST, LARGEST = 3, 26


def places(text: str) -> str:
    r"""Every symbol but the commonest of the inside, with its place: row letter, column number.

    The outermost frame is left out when it is all one symbol. Symbols come rarest first, equally rare ones in the order
    of their code points; a text that is no grid of single symbols is returned as it is.

    >>> places("#####\n#__P#\n#_OX#\n#___#\n#####")
    'Ob2 Pa3 Xb3'
    """
    rows = [row.replace(" ", "") for row in text.split("\n")]
    width = len(rows[0])
    if not SMALLEST <= len(rows) <= LARGEST or not SMALLEST <= width <= 99 or any(len(row) != width for row in rows):
        return text
    frame = set(rows[0] + rows[-1] + "".join(row[0] + row[-1] for row in rows))
    if len(frame) == 1:
        rows = [row[1:-1] for row in rows[1:-1]]
    found: dict[str, list[str]] = {}
    for letter, row in zip(ascii_lowercase, rows, strict=False):
        for column, symbol in enumerate(row, 1):
            found.setdefault(symbol, []).append(f"{letter}{column}")
    commonest = max(found, key=lambda symbol: (len(found[symbol]), symbol))
    ordered = sorted((symbol for symbol in found if symbol != commonest), key=lambda s: (len(found[s]), s))
    return " ".join(symbol + place for symbol in ordered for place in found[symbol])
