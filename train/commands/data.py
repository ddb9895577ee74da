"""Compare released data and stores with their manifests, and import, export, generate and label your own data.

creditflow data check alfworld "$ALFWORLD_DATA"         released games: present, missing or reworded
creditflow data check webshop FOLDER                    the released 1,000 products: differences and their effect
creditflow data check hotpotqa FILE --only dev          questions of a fixed slice (2wiki, musique likewise)
creditflow data import webshop FOLDER --out STORE       the original product files, verified and indexed once
creditflow data import verifiers FILE --out LOG.jsonl   another library's log (trl, verl, openenv, verl-agent, searchr1) as ours
creditflow data export LOG.jsonl --format hf --out DIR  a log as Parquet, for datasets or Minari, with a data card
creditflow data build wiki --articles 1000 --out WIKI   a fictional encyclopedia: passages, questions, a search index
creditflow data check webshop-store STORE               every file against its checksum (wikisearch-index likewise)
creditflow data label LOG.jsonl --out LABELS.jsonl      pivots of search rollouts, to train a success model on

Every action has its own help: creditflow data ACTION --help.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from creditflow.envs.alfworld.game_files.check import PUBLISHED as ALFWORLD_SPLITS
from creditflow.envs.alfworld.game_files.check import compare_games, listed_games, named_games, read_games
from creditflow.envs.data_report import DataReport
from creditflow.envs.errors import ConfigError, check_name
from creditflow.envs.files.atomic import new_folder
from creditflow.envs.sokoban.levels.boxoban import PUBLISHED as BOXOBAN_SETS
from creditflow.envs.sokoban.levels.boxoban import check_boxoban, load_ids
from creditflow.envs.wikisearch.data_check import DATA_SETS, SPLITS, check_questions, load_slices
from creditflow.envs.wikisearch.slices import PLAIN_SETS, check_slice
from creditflow.train.adapters.export.pictures import PICTURES, copy_pictures
from creditflow.train.analyses.leakage import overlap
from creditflow.train.arguments.logs import print_text
from creditflow.train.arguments.options import positive
from creditflow.train.arguments.outputs import Output, add_input, add_output, named
from creditflow.train.commands.data_import import add_import_arguments, run_import
from creditflow.train.progress import note, progress
from creditflow.wrappers.records.picture_folder import pictures_beside

__all__ = ["add_arguments", "run"]

STORES: Final = ("webshop-store", "wikisearch-index")
WIKI = named("passages.jsonl.gz", "index", "train.jsonl", "valid.jsonl", "test.jsonl")
FORMATS: Final = ("parquet", "hf", "minari")
TASKS = "tasks"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="check|import|export|build|label")
    add_check_arguments(actions.add_parser("check", help="compare released data with the embedded manifest"))
    add_import_arguments(actions.add_parser("import", help="import released files, or another library's log"))
    add_export_arguments(actions.add_parser("export", help="write a log in the format of a data library"))
    building = actions.add_parser("build", help="generate data")
    generated = building.add_subparsers(dest="name", required=True, metavar="wiki")
    wiki = generated.add_parser("wiki", help="a fictional encyclopedia")
    wiki.add_argument(
        "--articles", type=positive, required=True, metavar="N", help="number of articles, 200 to 1,000,000"
    )
    wiki.add_argument("--questions", type=int, default=0, metavar="N", help="number of questions (default 0)")
    wiki.add_argument("--index", action="store_true", help="write a search index instead of a passage file")
    add_output(wiki, "--out", Output(kind="folder", owned=WIKI), required=True, metavar="WIKI", help="folder to create")
    labelling = actions.add_parser("label", help="label the pivots of search rollouts")
    add_input(labelling, "log", metavar="LOG.jsonl", help="trajectory log from wikisearch, with its tasks")
    add_output(
        labelling, "--out", Output(also=_audit_file), required=True, metavar="LABELS.jsonl",
        help="label file to write, one line per trajectory kept",
    )  # fmt: skip
    labelling.add_argument(
        "--judge",
        metavar="URL#MODEL",
        help="LLM judge on an OpenAI-compatible server, used instead of the rule",
    )
    add_output(
        labelling,
        "--cache",
        Output(appended=True),
        metavar="FILE",
        help="cache of the judge's scores, read and appended to",
    )
    labelling.add_argument(
        "--audit",
        type=int,
        default=20,
        metavar="N",
        help="number of episodes written out for a human audit (default 20)",
    )


def run(args: argparse.Namespace) -> int:
    """Run the command. A folder that it creates replaces an empty one; any other only with ``--force``."""
    if args.action == "check":
        return run_check(args)
    if args.action == "build":
        return _build_wiki(args)
    if args.action == "label":
        return _label(args)
    if args.action == "import":
        return run_import(args)
    return run_export(args)


def _build_wiki(args: argparse.Namespace) -> int:
    from creditflow.envs.wikisearch.world.build import build_wiki

    build_wiki(
        args.out, articles=args.articles, questions=args.questions, index=args.index,
        replace=True, progress=lambda count: note(f"build: {count} articles"),
    )  # fmt: skip
    print(f"{args.out}: {args.articles} articles, {args.questions} questions")
    return 0


def _audit_file(labels: Path) -> Path:
    return labels.with_suffix(".audit.txt")


def _label(args: argparse.Namespace) -> int:
    from creditflow.train.annotate.success.labelling import judge_labeller, label_log, write_audit
    from creditflow.train.annotate.success.labels import write_labels
    from creditflow.wrappers.records.jsonl import read_groups

    labeller = judge_labeller(args.judge, args.cache) if args.judge else None
    groups = read_groups(args.log)
    result = label_log(groups, labeller)
    write_labels(args.out, result.labels)
    turn_labels = "".join(label for entry in result.labels for label in entry.turn_labels)
    print(
        f"{args.out}: {len(result.labels)} trajectories, {turn_labels.count('+')} turns '+', {turn_labels.count('-')} '-', "
        f"success {result.success:.3f}"
    )
    for reason, count in result.skipped.items():
        print(f"  left out {count}: {reason}")
    if args.audit > 0:
        audit = _audit_file(Path(args.out))
        count = write_audit(audit, groups, result.labels, args.audit)
        print(f"{audit}: {count} labelled episodes for a human audit")
    return 0


def add_export_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the arguments of ``data export``."""
    add_input(parser, "path", metavar="LOG.jsonl", help="trajectory log to export")
    parser.add_argument(
        "--format", choices=FORMATS, default="hf",
        help="parquet: files and a card; hf (default): the same in the Hub's layout, for datasets.load_dataset; minari: a Minari dataset",
    )  # fmt: skip
    owned = named("README.md", "data", "creditflow", "log.jsonl.gz", "namespace_metadata.json", PICTURES)
    add_output(
        parser,
        "--out",
        Output(kind="folder", owned=owned),
        required=True,
        metavar="DIR",
        help="folder to create",
    )
    parser.add_argument(
        "--license",
        default="",
        metavar="NAME",
        help="licence for the card, such as cc-by-4.0 (default: to be filled in)",
    )
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")


def run_export(args: argparse.Namespace) -> int:
    """Export a log; print what was written. The folder gets its name when everything is in it."""
    from creditflow.train.adapters.export.card import data_card, file_digest
    from creditflow.wrappers.records.jsonl import read_log

    folder, source = Path(args.out), Path(args.path)
    log = read_log(source)
    groups = log.groups
    with new_folder(folder, replace=True) as temporary:
        if args.format == "minari":
            from creditflow.train.adapters.export.minari import write_minari

            data = write_minari(temporary, log)
        else:
            from creditflow.train.adapters.export.parquet import write_parquet

            data = write_parquet(temporary, log)
        pictures = copy_pictures(groups, pictures_beside(source), temporary / PICTURES)
        card = data_card(
            groups, source=source.name, digest=file_digest(source), form=args.format, license_name=args.license
        )
        (temporary / "README.md").write_text(card, encoding="utf-8")
        written = folder / data.relative_to(temporary)
    counts = {
        "groups": len(groups),
        "rollouts": sum(map(len, groups)),
        "turns": sum(len(group.turns) for group in groups),
        **pictures.to_json(),
    }
    if args.json:
        print(json.dumps({"out": str(folder), "format": args.format, "file": str(written), **counts}, indent=1))
    else:
        print(
            f"{written}: {counts['rollouts']} trajectories in {counts['groups']} groups, {counts['turns']} turns"
            f"{pictures.to_text()}; fill in {folder / 'README.md'}"
        )
    return 0


__all__ = ["add_check_arguments", "run_check"]


@dataclass(frozen=True, slots=True)
class _DataSet:
    """Data that can be checked: the names of its components, and what compares a path with its manifest."""

    components: tuple[str, ...]
    check: Callable[[str, tuple[str, ...]], DataReport]


def add_check_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the arguments of ``data check``."""
    parser.add_argument(
        "name", choices=[*_DATA_SETS, *STORES, TASKS], metavar="NAME",
        help=f"data set, one of: {', '.join(_DATA_SETS)}; or a store, {' or '.join(STORES)}; or {TASKS}: report whether the tasks of --against were trained on in PATH",
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
    if args.name in STORES:
        if args.only:
            raise ConfigError(f"--only has no effect on {args.name}, whose files are all checked; leave it out")
        return _verify(args)
    data = _DATA_SETS[args.name]
    for component in args.only or ():
        check_name(f"part of {args.name}", component, data.components)
    report = data.check(args.path, args.only or data.components)
    print_text(json.dumps(report.to_json(), indent=1) if args.json else report.to_text(), args.out)
    return 0 if report.complete else 1


def _verify(args: argparse.Namespace) -> int:
    """Compare every byte of a store with its checksums; a damaged one is an error."""
    if args.name == "webshop-store":
        from creditflow.envs.webshop.catalogue.store import verify_store

        files = verify_store(args.path)["files"]
    else:
        from creditflow.envs.wikisearch.retrieval.store import verify_store as verify_index

        files = verify_index(args.path).header["files"]
    report = {"path": args.path, "files": len(files)}
    print_text(json.dumps(report) if args.json else f"{args.path}: intact; {len(files)} files", args.out)
    return 0


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
