"""Check released data against its manifest, and import, generate and label data of your own.

creditflow data check alfworld "$ALFWORLD_DATA"         released games: present, missing or changed
creditflow data check webshop FOLDER                    the released 1,000 products: differences and their effect
creditflow data import verifiers FILE --out LOG.jsonl   another library's log (trl, verl, openenv, verl-agent) as ours
creditflow data build wiki --articles 1000 --out WIKI   a fictional encyclopedia: passages, questions, a search index
creditflow data build verl --env sokoban --out FILE     tasks as rows for verl and SkyRL, in Parquet
creditflow data check wikisearch-index INDEX            every file of an index folder against its checksum
creditflow data label LOG.jsonl --judge URL#MODEL --out LABELS.jsonl    pivots of search rollouts, to train a success model on

Every action has its own help: creditflow data ACTION --help.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from creditflow.envs.alfworld.game_files.check import SPLITS as ALFWORLD_SPLITS
from creditflow.envs.alfworld.game_files.check import compare_games, listed_games, read_games
from creditflow.envs.errors import ConfigError, check_name
from creditflow.envs.manifests import DataReport
from creditflow.train.arguments.options import positive, seed
from creditflow.train.arguments.outputs import Output, add_input, add_json, add_output, named, print_text
from creditflow.train.arguments.programs import add_code
from creditflow.train.progress import note, progress

__all__ = ["add_arguments", "run"]

INDEX: Final = "wikisearch-index"
WIKI = named("passages.jsonl.gz", "index", "train.jsonl", "valid.jsonl", "test.jsonl")
LOGS: Final = ("messages", "openenv", "trl", "verifiers", "verl", "verl-agent")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="check|import|build|label")
    add_check_arguments(actions.add_parser("check", help="check released data against its manifest"))
    add_import_arguments(actions.add_parser("import", help="import another library's log"))
    building = actions.add_parser("build", help="generate data")
    generated = building.add_subparsers(dest="name", required=True, metavar="wiki|verl")
    wiki = generated.add_parser("wiki", help="a fictional encyclopedia")
    wiki.add_argument(
        "--articles", type=positive, required=True, metavar="N", help="number of articles, 200 to 1,000,000"
    )
    wiki.add_argument("--questions", type=int, default=0, metavar="N", help="number of questions (default 0)")
    wiki.add_argument("--index", action="store_true", help="write a search index instead of a passage file")
    add_output(wiki, "--out", Output(kind="folder", owned=WIKI), required=True, metavar="WIKI", help="folder to create")
    rows = generated.add_parser(
        "verl",
        help="the data set of a run in verl, whose rows carry the tasks for the agent loop",
        description="Write the tasks of an environment as rows for verl's agent loop and for SkyRL.\n\nThe prompt column contains the task id "
        "and is not used, because the agent loop builds the prompts. Files of several environments can be given to verl together.",
    )
    add_code(
        rows,
        "--env",
        "environment",
        required=True,
        metavar="NAME",
        help="environment, as `creditflow envs` lists them, or your own: path/to/file.py:NAME",
    )
    rows.add_argument("--env-set", action="append", default=[], metavar="KEY=VALUE", help="argument of the environment")
    rows.add_argument("--panel", default="", metavar="NAME:SPLIT", help="built-in tasks to write")
    rows.add_argument(
        "--draw", type=positive, default=0, metavar="N", help="number of tasks to sample from a generator"
    )
    rows.add_argument("--seed", type=seed, default=0, help="random seed of the sampled tasks (default 0)")
    add_output(rows, "--out", required=True, metavar="FILE.parquet", help="file to write")
    labelling = actions.add_parser("label", help="label the pivots of search rollouts")
    add_input(labelling, "log", metavar="LOG.jsonl", help="trajectory log from wikisearch, with its tasks")
    labelling.add_argument(
        "--judge", required=True, metavar="URL#MODEL", help="LLM judge on an OpenAI-compatible server"
    )
    add_output(
        labelling,
        "--out",
        required=True,
        metavar="LABELS.jsonl",
        help="label file to write, one line per trajectory kept",
    )
    add_output(labelling, "--cache", Output(appended=True), metavar="FILE", help="cache file for the judge's scores")
    add_output(labelling, "--audit", metavar="FILE", help="write some labelled episodes for a human audit")


def run(args: argparse.Namespace) -> int:
    """Run the command. A folder that it creates replaces an empty one; any other only with ``--force``."""
    if args.action == "check":
        return run_check(args)
    if args.action == "build":
        return _build_wiki(args) if args.name == "wiki" else _build_rows(args)
    if args.action == "label":
        return _label(args)
    return run_import(args)


def _build_wiki(args: argparse.Namespace) -> int:
    from creditflow.envs.wikisearch.world.build import build_wiki

    build_wiki(
        args.out,
        articles=args.articles,
        questions=args.questions,
        index=args.index,
        replace=True,
        progress=lambda count: note(f"build: {count} articles"),
    )
    print(f"{args.out}: {args.articles} articles, {args.questions} questions")
    return 0


def _build_rows(args: argparse.Namespace) -> int:
    from creditflow.train.engines.verl import rows_of, write_parquet
    from creditflow.train.rollout.tasks import training_tasks
    from creditflow.train.settings.overrides import apply_overrides
    from creditflow.train.settings.schema import EnvConfig, TaskConfig

    env = EnvConfig(name=args.env, options=apply_overrides({}, args.env_set))
    tasks = training_tasks(env, TaskConfig(panel=args.panel, count=args.draw), seed=args.seed)
    write_parquet(Path(args.out), rows_of(args.env, tasks))
    print(f"{args.out}: {len(tasks)} tasks of {args.env}")
    return 0


def _label(args: argparse.Namespace) -> int:
    from creditflow.train.annotate.success.labelling import judge_labeller, label_log, write_audit
    from creditflow.train.annotate.success.labels import write_labels
    from creditflow.wrappers.records.jsonl import read_groups

    groups = read_groups(args.log)
    result = label_log(groups, judge_labeller(args.judge, args.cache))
    write_labels(args.out, result.labels)
    turn_labels = "".join(label for entry in result.labels for label in entry.turn_labels)
    print(
        f"{args.out}: {len(result.labels)} trajectories, {turn_labels.count('+')} turns '+', {turn_labels.count('-')} '-', "
        f"success {result.success:.3f}"
    )
    for reason, count in result.skipped.items():
        print(f"  left out {count}: {reason}")
    if args.audit:
        count = write_audit(args.audit, groups, result.labels)
        print(f"{args.audit}: {count} labelled episodes for a human audit")
    return 0


@dataclass(frozen=True, slots=True)
class _DataSet:
    """Data that can be checked: the names of its components, and what compares a path with its manifest."""

    components: tuple[str, ...]
    check: Callable[[str, tuple[str, ...]], DataReport]


def add_check_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the arguments of ``data check``."""
    parser.add_argument(
        "name",
        choices=[*_DATA_SETS, INDEX],
        metavar="NAME",
        help=f"data set, one of: {', '.join(_DATA_SETS)}; or {INDEX}",
    )
    add_input(parser, "path", help="folder of the released data")
    names = "; ".join(f"{name}: {', '.join(data.components)}" for name, data in _DATA_SETS.items())
    parser.add_argument(
        "--only",
        type=_names,
        metavar="A,B",
        help=f"check only these parts ({names}); the exit code is 1 if they differ from the release",
    )
    add_json(parser, "print the report as JSON, with all differences")
    add_output(parser, "--out", default="-", metavar="FILE", help="file to write; - (default) is standard output")


def run_check(args: argparse.Namespace) -> int:
    """Print what is as published and what is not; return 0 if all that the manifest lists is as published, else 1."""
    if args.name == INDEX:
        if args.only:
            raise ConfigError(f"--only has no effect on {args.name}, whose files are all checked; leave it out")
        return _check_index(args)
    data = _DATA_SETS[args.name]
    for component in args.only or ():
        check_name(f"part of {args.name}", component, data.components)
    report = data.check(args.path, args.only or data.components)
    print_text(json.dumps(report.to_json(), indent=1) if args.json else report.to_text(), args.out)
    return 0 if report.complete else 1


def _check_index(args: argparse.Namespace) -> int:
    """Compare every byte of an index folder with its checksums; a damaged one is an error."""
    from creditflow.envs.wikisearch.retrieval.store import verify_store

    files = verify_store(args.path).header["files"]
    report = {"path": args.path, "files": len(files)}
    print_text(json.dumps(report) if args.json else f"{args.path}: intact; {len(files)} files", args.out)
    return 0


def _names(text: str) -> tuple[str, ...]:
    """Return the names of a list with commas, each once."""
    return tuple(dict.fromkeys(text.split(",")))


def _check_alfworld(path: str, splits: tuple[str, ...]) -> DataReport:
    rows = listed_games(splits)
    return compare_games(path, progress(read_games(path, splits), "check", len(rows)), rows)


def _check_webshop(path: str, parts: tuple[str, ...]) -> DataReport:
    from creditflow.envs.webshop.catalogue.check import MANIFEST, check_shop, load_manifest

    manifest = load_manifest(MANIFEST)
    return check_shop(path, manifest, parts, lambda found: progress(found, "check", len(manifest.products)))


_DATA_SETS = {
    "alfworld": _DataSet(ALFWORLD_SPLITS, _check_alfworld),
    "webshop": _DataSet(("products", "order", "synthetic", "human"), _check_webshop),
}


def add_import_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the arguments of ``data import``."""
    parser.add_argument("name", choices=LOGS, metavar="FORMAT", help=f"format of the files, one of: {', '.join(LOGS)}")
    add_input(parser, "path", help="the log (JSON Lines, JSON, Parquet)")
    add_output(parser, "--out", required=True, metavar="OUT", help="log to write (.jsonl or .jsonl.gz)")
    parser.add_argument(
        "--strict", action="store_true", help="stop at a malformed row (default: skip such rows and count them)"
    )
    add_json(parser, "print the report as JSON")
    parser.add_argument(
        "--state-key",
        metavar="KEY",
        help="state key: observation (default), history, none (every visit is a new state), or the path of a field, such as info.state",
    )
    parser.add_argument("--id", metavar="FIELD", help="field with the id of a rollout (default: the format's own)")
    parser.add_argument(
        "--done",
        metavar="FIELD",
        help="field that says how a rollout ended: true (by itself), false (cut by a limit), or a word such as "
        "length or max_turns (default: done, if present; verifiers: its own)",
    )
    parser.add_argument(
        "--messages",
        metavar="FIELD",
        help="messages: field with the list of messages (default: messages, conversations and similar names)",
    )
    parser.add_argument(
        "--group", metavar="FIELD", help="field with the group of a rollout (default: the format's own)"
    )
    parser.add_argument(
        "--reward",
        metavar="FIELD",
        help="field with the reward (default: the format's own); trl: columns with weights, such as a,b*0.5",
    )
    parser.add_argument(
        "--success", metavar="FIELD", help="field that says whether a rollout succeeded (default: the reward)"
    )
    parser.add_argument(
        "--success-at",
        type=float,
        metavar="X",
        help="count a rollout as successful if this number is at least X (default 1)",
    )
    parser.add_argument(
        "--turns",
        choices=("roles", "search", "single"),
        help="verl, trl: how to split a text without messages into turns: roles (default), search (Search-R1's tags) or single",
    )


def run_import(args: argparse.Namespace) -> int:
    """Import a log; print what was read and what was left out."""
    from creditflow.train.adapters.logs.episodes import ImportSettings
    from creditflow.train.adapters.logs.reading import read_log
    from creditflow.wrappers.records.jsonl import write_jsonl

    for option, formats in (("turns", ("trl", "verl")), ("messages", ("messages",))):
        if getattr(args, option) is not None and args.name not in formats:
            raise ConfigError(f"--{option} has no effect on {args.name}; leave it out")
    chosen = {field.name: getattr(args, field.name) for field in fields(ImportSettings)}
    settings = ImportSettings(**{name: value for name, value in chosen.items() if value is not None})
    report = read_log(args.name, args.path, settings)
    write_jsonl(args.out, report.log)
    if args.json:
        print(json.dumps({"out": args.out, **report.to_json()}, indent=1, allow_nan=False))
    else:
        print(f"{args.out}\n\n{report.to_text()}")
    return 0
