"""Paired difference between two methods of a benchmark run, with an interval that suits a handful of tasks.

Run: ``python -m creditflow.train.commands.programs.differences RESULTS.json[.gz] SUITE KINDS A B [--value area|gain] [--size G]``,
with a suite that has exact values, and KINDS such as ``alias`` or ``open,pits``. A difference is significant if its interval
excludes 0.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from creditflow.envs.errors import ConfigError, unknown_name_error
from creditflow.train.arguments.options import positive
from creditflow.train.arguments.outputs import add_input
from creditflow.train.arguments.programs import run_program
from creditflow.train.bench.report.tidy import results_of
from creditflow.train.bench.results import read_results

__all__ = ["add_arguments", "main", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the program's arguments."""
    add_input(parser, "results", help="results.json of a run, compressed or not")
    parser.add_argument("suite", help="suite with exact values")
    parser.add_argument("kinds", help="kinds of task, separated by commas")
    parser.add_argument("a", help="method")
    parser.add_argument("b", help="method that is subtracted")
    parser.add_argument(
        "--value", choices=("area", "gain"), default="area", help="area, or gain of one step (default area)"
    )
    parser.add_argument("--size", type=positive, help="group size (default all)")


def run(args: argparse.Namespace) -> int:
    """Print one difference.

    Raises:
        ConfigError: the suite, a kind, a method or the group size is unknown.
        DataError: the file is not the results of a benchmark.
    """
    document = read_results(Path(args.results))
    suites = {suite["name"]: results_of(suite) for suite in document["suites"] if "cells" in suite}
    if args.suite not in suites:
        raise unknown_name_error("suite with exact values", args.suite, suites)
    kinds, all_kinds = args.kinds.split(","), suites[args.suite].by("kind")
    for kind in kinds:
        if kind not in all_kinds:
            raise unknown_name_error("kind of task", kind, all_kinds)
    measured = suites[args.suite].where(lambda setting: setting.kind in kinds and args.value in setting.values)
    results = measured.where(lambda setting: args.size in (None, setting.size))
    if not len(results):
        sizes = ", ".join(map(str, sorted(measured.by("size")))) or "none"
        raise ConfigError(
            f"no {args.value} was measured there in groups of {args.size or 'any size'}; measured sizes: {sizes}"
        )
    for name in (args.a, args.b):
        if name not in results.methods(args.value):
            raise unknown_name_error("method", name, results.methods(args.value))
    difference = results.estimate(args.value, args.a, args.b)
    print(f"{args.a} - {args.b}, {args.value}, {args.suite} {args.kinds}: {difference.text(3, '+')}")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    return run_program("creditflow.train.commands.programs.differences", arguments)


if __name__ == "__main__":
    sys.exit(main())
