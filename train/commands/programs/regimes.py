"""Which scheme when, over one or more benchmark runs.

Run: ``python -m creditflow.train.commands.programs.regimes RESULTS.json[.gz] …`` prints one table for all these runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from creditflow.train.arguments.outputs import add_input
from creditflow.train.arguments.programs import run_program
from creditflow.train.bench.report.tables import regime_table
from creditflow.train.bench.results import read_results
from creditflow.train.text_table import text_table

__all__ = ["add_arguments", "main", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the program's arguments."""
    add_input(parser, "results", nargs="+", help="results.json of a run, compressed or not")


def run(args: argparse.Namespace) -> int:
    """Print one table for one or more runs.

    Raises:
        DataError: a file is not the results of a benchmark.
    """
    table = regime_table(*(read_results(Path(name)) for name in args.results))
    print(
        "no regime was run with at least two schemes, so there is nothing to compare"
        if table is None
        else f"{table.note}\n\n{text_table(table.rows, table.controls)}"
    )
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    return run_program("creditflow.train.commands.programs.regimes", arguments)


if __name__ == "__main__":
    sys.exit(main())
