"""The result of an analysis (values for programs, tables for readers, notes on how to read them), and the program around one."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from creditflow.envs.errors import DataError
from creditflow.train.arguments.logs import add_log_argument, read_log
from creditflow.train.text_table import text_table

__all__ = ["Finding", "NotDefined", "Table", "add_arguments", "decimals", "json_values", "percent", "run_analysis"]


class NotDefined(DataError):  # noqa: N818 - not an error of the user: the log lacks the data
    """An analysis is not applicable to a log; the message gives the reason and the data that are missing."""


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
        name: name of the analysis.
        source: table or figure of the paper.
        numbers: all results as plain JSON values; None where undefined.
        tables: tables for readers.
        notes: how to read the tables.
    """

    name: str
    source: str
    numbers: Mapping[str, Any]
    tables: Sequence[Table]
    notes: Sequence[str] = ()

    def __str__(self) -> str:
        paragraphs = [f"{self.name}: {self.source}", *map(str, self.tables)]
        if self.notes:
            paragraphs.append("\n".join(f"- {note}" for note in self.notes))
        return "\n\n".join(paragraphs)


def json_values(x: Any) -> Any:
    """The same values with None for nan and infinity, which JSON lacks."""
    if isinstance(x, Mapping):
        return {str(key): json_values(value) for key, value in x.items()}
    if isinstance(x, list | tuple):
        return [json_values(value) for value in x]
    return None if isinstance(x, float) and not math.isfinite(x) else x


def percent(x: float, digits: int = 1) -> str:
    """A fraction as a table cell."""
    return "–" if math.isnan(x) else f"{100.0 * x:.{digits}f}%"


def decimals(x: float, digits: int = 3) -> str:
    """A number as a table cell."""
    return "–" if math.isnan(x) else f"{x:.{digits}f}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the arguments of a program that analyses a log."""
    add_log_argument(parser)
    parser.add_argument("--json", action="store_true", help="print the results as JSON")


def run_analysis(analyse: Callable[..., Finding], args: argparse.Namespace, **options: object) -> int:
    """Analyse the log that the arguments name and print the finding.

    Raises:
        NotDefined: the log lacks what the analysis needs.
    """
    found = analyse(read_log(args), **options)
    numbers = {"source": found.source, **found.numbers, "notes": list(found.notes)}
    print(json.dumps(json_values(numbers), indent=1, allow_nan=False) if args.json else found)
    return 0
