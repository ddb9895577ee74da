"""One table of a document, and what all tables share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from creditflow.train.bench.report.statistics import Estimate

__all__ = ["AREA_TITLE", "METRICS_TITLE", "Table", "number_text", "ordered"]

AREA_TITLE: Final = "Mean success during training"
METRICS_TITLE: Final = "Direction, bias and variance, concordance, AUROC (M1, M3, M4, M5)"


@dataclass(frozen=True, slots=True)
class Table:
    """One table.

    Attributes:
        title: heading.
        note: how to read the table.
        rows: header, then the rows.
        controls: index of the first row that is a control, not counting the header.
        bars: for each row the estimate that the page draws; None for none.
        question: what the table and its plot answer, in plain words.
        unit: of the estimates drawn.
    """

    title: str
    note: str
    rows: list[list[str]]
    controls: int
    bars: tuple[Estimate | None, ...] = ()
    question: str = ""
    unit: str = ""


def ordered(names: Sequence[str], score: Callable[[str], float]) -> list[str]:
    """Sort names by decreasing score, and by name where scores are equal."""
    return sorted(names, key=lambda name: (-score(name), name))


def number_text(x: float | None, digits: int = 2) -> str:
    """A number with ``digits`` decimal places; a dash if it is unknown."""
    return "–" if x is None or not math.isfinite(x) else f"{x:.{digits}f}"
