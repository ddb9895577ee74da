"""What an analysis returns: numbers for machines, tables for people, and what they do not say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from creditflow.envs.errors import CreditflowError
from creditflow.train.bench.report.tables import text_table

__all__ = ["Finding", "NotDefined", "Table", "decimals", "percent", "plain"]


class NotDefined(CreditflowError):  # noqa: N818 - nobody's mistake: what a log does not hold cannot be analysed
    """An analysis that has no meaning on a log; says why, and what would give it one."""


@dataclass(frozen=True)
class Table:
    """A table as text: a caption, then rows of cells; the first row is the header."""

    caption: str
    rows: Sequence[Sequence[str]]

    def __str__(self) -> str:
        return f"{self.caption}\n\n{text_table(self.rows)}"


@dataclass(frozen=True)
class Finding:
    """The result of one analysis.

    Attributes:
        name: of the analysis.
        source: the paper's table or figure.
        numbers: everything that was found, as plain JSON values; None where undefined.
        tables: what a person reads.
        notes: what to know when reading them.
    """

    name: str
    source: str
    numbers: Mapping[str, Any]
    tables: Sequence[Table]
    notes: Sequence[str] = ()

    def __str__(self) -> str:
        parts = [f"{self.name}: {self.source}", *map(str, self.tables)]
        if self.notes:
            parts.append("\n".join(f"- {note}" for note in self.notes))
        return "\n\n".join(parts)


def plain(x: Any) -> Any:
    """JSON has neither nan nor infinity: null stands for both."""
    if isinstance(x, Mapping):
        return {str(key): plain(value) for key, value in x.items()}
    if isinstance(x, list | tuple):
        return [plain(value) for value in x]
    return None if isinstance(x, float) and not math.isfinite(x) else x


def percent(x: float, digits: int = 1) -> str:
    """A share as a cell."""
    return "–" if math.isnan(x) else f"{100.0 * x:.{digits}f}%"


def decimals(x: float, digits: int = 3) -> str:
    """A number as a cell."""
    return "–" if math.isnan(x) else f"{x:.{digits}f}"
