"""Tables and counts as plain text: the one form of everything that a command prints or a page quotes."""

from __future__ import annotations

import math
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Final

from creditflow.envs.errors import printable

__all__ = ["counted", "decimals", "percent", "terminal_width", "text_table"]

GAP: Final = "  "  # between columns
NARROWEST: Final = 16  # characters that a column keeps


def percent(x: float, digits: int = 1) -> str:
    """A fraction as a table cell; "–" for nan."""
    return "–" if math.isnan(x) else f"{100.0 * x:.{digits}f}%"


def decimals(x: float, digits: int = 3) -> str:
    """A number as a table cell; "–" for nan."""
    return "–" if math.isnan(x) else f"{x:.{digits}f}"


def terminal_width() -> int:
    """Columns of the terminal that the command prints to; 0 where the output is a file or a pipe, which get lines as they are."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def text_table(rows: Sequence[Sequence[str]], rule_before: int | None = None, width: int = 0) -> str:
    """Rows as aligned columns; the first row is the header.

    Args:
        rows: header first.
        rule_before: index of the row, not counting the header, above which a line is drawn.
        width: the widest columns are wrapped until the table is this wide, if it can be; 0 if lines may be of any length.
    """
    rows = [list(map(printable, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    while width and (over := sum(widths) + len(GAP) * (len(widths) - 1) - width) > 0 and max(widths) > NARROWEST:
        widest = widths.index(max(widths))
        runner_up = max([NARROWEST, *widths[:widest], *widths[widest + 1 :]])
        widths[widest] = max(widths[widest] - over, min(runner_up, widths[widest] - 1), NARROWEST)
    lines = ["\n".join(_wrapped(row, widths)) for row in rows]
    line = GAP.join("-" * width for width in widths)
    body = lines[1:]
    if rule_before is not None and 0 < rule_before < len(body):
        body.insert(rule_before, line)
    return "\n".join([lines[0], line, *body])


def _wrapped(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    """A row as lines, each cell within the width of its column."""
    cells = [
        [cell] if len(cell) <= width else textwrap.wrap(cell, width, break_on_hyphens=False)
        for cell, width in zip(row, widths, strict=True)
    ]
    height = max(map(len, cells))
    padded = [[*cell, *[""] * (height - len(cell))] for cell in cells]
    return [GAP.join(map(str.ljust, line, widths)).rstrip() for line in zip(*padded, strict=True)]


def counted(number: int, noun: str) -> str:
    """A number with its noun in singular or plural.

    >>> counted(1, "group"), counted(1200, "trajectory")
    ('1 group', '1,200 trajectories')
    """
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"
