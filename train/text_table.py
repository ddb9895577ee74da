"""Tables and counts as plain text: the one form of everything that a command prints or a page quotes."""

from __future__ import annotations

from collections.abc import Sequence

from creditflow.envs.errors import printable

__all__ = ["counted", "text_table"]


def text_table(rows: Sequence[Sequence[str]], rule_before: int | None = None) -> str:
    """Rows as aligned columns; the first row is the header.

    Args:
        rows: header first.
        rule_before: index of the row, not counting the header, above which a line is drawn.
    """
    rows = [list(map(printable, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    line = "  ".join("-" * width for width in widths)
    body = lines[1:]
    if rule_before is not None and 0 < rule_before < len(body):
        body.insert(rule_before, line)
    return "\n".join([lines[0], line, *body])


def counted(number: int, noun: str) -> str:
    """A number with its noun in singular or plural.

    >>> counted(1, "group"), counted(1200, "trajectory")
    ('1 group', '1,200 trajectories')
    """
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"
