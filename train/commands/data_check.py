"""``creditflow data check``: released data of a user compared with the manifest in the package."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from creditflow.envs.alfworld.game_files.check import PUBLISHED as ALFWORLD_SPLITS
from creditflow.envs.alfworld.game_files.check import compare_games, listed_games, named_games, read_games
from creditflow.envs.data_report import DataReport
from creditflow.envs.errors import ConfigError, check_name
from creditflow.envs.sokoban.levels.boxoban import PUBLISHED as BOXOBAN_SETS
from creditflow.envs.sokoban.levels.boxoban import check_boxoban, load_ids
from creditflow.envs.wikisearch.data_check import DATA_SETS, SPLITS, check_questions, load_slices
from creditflow.envs.wikisearch.slices import PLAIN_SETS, check_slice
from creditflow.train.analyses.leakage import overlap
from creditflow.train.arguments.logs import print_text
from creditflow.train.arguments.outputs import add_input, add_output
from creditflow.train.progress import progress

TASKS = "tasks"

__all__ = ["add_check_arguments", "run_check"]


@dataclass(frozen=True, slots=True)
class _DataSet:
    """Data that can be checked: the names of its components, and what compares a path with its manifest."""

    components: tuple[str, ...]
    check: Callable[[str, tuple[str, ...]], DataReport]


def add_check_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the arguments of ``data check``."""
    parser.add_argument(
        "name", choices=[*_DATA_SETS, TASKS], metavar="NAME",
        help=f"data set, one of: {', '.join(_DATA_SETS)}; or {TASKS}: report whether the tasks of --against were trained on in PATH",
    )  # fmt: skip
    add_input(
        parser,
        "path",
        help="folder of the released data; alfworld: or an archive (.tar, .tar.gz, .tar.xz); question sets: a file; tasks: a log, or ENV/PANEL:SPLIT",
    )
    names = "; ".join(f"{name}: {', '.join(data.components)}" for name, data in _DATA_SETS.items())
    parser.add_argument(
        "--only",
        type=_names,
        metavar="A,B",
        help=f"check these parts only ({names}); the exit code is 1 if what the manifest lists of them is not as released",
    )
    parser.add_argument(
        "--against",
        default="",
        metavar="LOG|ENV/PANEL:SPLIT",
        help="tasks: the validation tasks; the exit code is 1 if some of them are in PATH, compared by content",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON, with all differences")
    add_output(parser, "--out", default="-", metavar="FILE", help="file to write; - (default) is standard output")


def run_check(args: argparse.Namespace) -> int:
    """Print what is as published and what is not; return 0 if all that the manifest lists is as published, else 1."""
    if (args.name == TASKS) != bool(args.against):
        raise ConfigError(f"data check {TASKS} PATH --against VALID compares tasks; use --against only with {TASKS}")
    if args.name == TASKS:
        shared = overlap(args.path, args.against)
        print_text(json.dumps(shared._asdict()) if args.json else f"{shared}.", args.out)
        return int(shared.trained_on > 0)
    data = _DATA_SETS[args.name]
    for component in args.only or ():
        check_name(f"part of {args.name}", component, data.components)
    report = data.check(args.path, args.only or data.components)
    print_text(json.dumps(report.to_json(), indent=1) if args.json else report.to_text(), args.out)
    return 0 if report.complete else 1


def _names(text: str) -> tuple[str, ...]:
    """Return the names of a list with commas, each once."""
    return tuple(dict.fromkeys(text.split(",")))


def _check_alfworld(path: str, splits: tuple[str, ...]) -> DataReport:
    rows = listed_games(splits)
    return compare_games(path, progress(read_games(path, splits), "check", len(rows)), rows, named_games(splits))


def _check_webshop(path: str, parts: tuple[str, ...]) -> DataReport:
    from creditflow.envs.webshop.catalogue.check import MANIFEST, check_shop, load_manifest

    manifest = load_manifest(MANIFEST)
    return check_shop(path, manifest, parts, lambda found: progress(found, "check", len(manifest.products)))


def _check_webshop_full(path: str, parts: tuple[str, ...]) -> DataReport:
    from creditflow.envs.webshop.catalogue.check import PUBLISHED_FULL, check_full

    return check_full(path, parts, lambda found: progress(found, "check", PUBLISHED_FULL["products"]))


def _check_boxoban(path: str, parts: tuple[str, ...]) -> DataReport:
    return check_boxoban(path, load_ids(), parts)


def _check_questions(name: str, path: str, splits: tuple[str, ...]) -> DataReport:
    return check_questions(name, path, load_slices()[name], splits)


_DATA_SETS = {
    "alfworld": _DataSet(tuple(ALFWORLD_SPLITS), _check_alfworld),
    "boxoban": _DataSet(tuple(BOXOBAN_SETS), _check_boxoban),
    "webshop": _DataSet(("products", "synthetic", "human"), _check_webshop),
    "webshop-full": _DataSet(("products", "human"), _check_webshop_full),
    **{name: _DataSet(SPLITS, partial(_check_questions, name)) for name in DATA_SETS},
    **{name: _DataSet((split,), partial(check_slice, name)) for name, split in PLAIN_SETS.items()},
}
