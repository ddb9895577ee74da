"""Texts that are grids of symbols, with one row per line."""

from __future__ import annotations

from typing import Final

__all__ = ["grid_rows"]

MIN_SIZE: Final = 3
MAX_ROWS, MAX_COLUMNS = 26, 99  # a letter names a row, two digits a column


def grid_rows(text: str) -> list[str] | None:
    """The rows without spaces; None if the text is not a grid whose rows have equal length and whose cells can be named."""
    rows = [row.replace(" ", "") for row in text.split("\n")]
    width = len(rows[0])
    fits = MIN_SIZE <= len(rows) <= MAX_ROWS and MIN_SIZE <= width <= MAX_COLUMNS
    return rows if fits and all(len(row) == width for row in rows) else None
