"""``creditflow data check``: released data of a user compared with the manifest in the package."""

from __future__ import annotations

import argparse
import json

from creditflow.envs.alfworld.game_files.check import PUBLISHED, compare_games, listed_games
from creditflow.envs.alfworld.game_files.found import read_games
from creditflow.envs.data_report import DataReport
from creditflow.envs.errors import unknown_name_error
from creditflow.train.commands.arguments.logs import print_text
from creditflow.train.commands.arguments.outputs import add_input, add_output
from creditflow.train.progress import progress

__all__ = ["add_check_arguments", "run_check"]

CHECKABLE = ("alfworld",)


def add_check_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the arguments of ``data check``."""
    parser.add_argument("name", help=f"data set, one of: {', '.join(CHECKABLE)}")
    add_input(parser, "path", help="folder of the released data, or an archive (.tar, .tar.gz, .tar.xz) of it")
    parser.add_argument(
        "--splits",
        type=_names,
        default=",".join(PUBLISHED),
        metavar="A,B",
        help="splits to check (default: all); the exit code is 1 if a listed game of them is not as released",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON, with all differences")
    add_output(parser, "--out", default="-", metavar="FILE", help="file to write; - (default) is standard output")


def run_check(args: argparse.Namespace) -> int:
    """Print what is as published and what is not; return 0 if all that the manifest lists is as published, else 1."""
    if args.name not in CHECKABLE:
        raise unknown_name_error("data to check", args.name, CHECKABLE)
    report = _check_alfworld(args.path, args.splits)
    print_text(json.dumps(report.to_json(), indent=1) if args.json else report.to_text(), args.out)
    return 0 if report.complete else 1


def _names(text: str) -> tuple[str, ...]:
    """Return the names of a list with commas, each once."""
    return tuple(dict.fromkeys(text.split(",")))


def _check_alfworld(path: str, splits: tuple[str, ...]) -> DataReport:
    rows = listed_games(splits)
    return compare_games(path, progress(read_games(path, splits), "check", len(rows)), rows)
