"""``creditflow data import``: released files as a store, and logs of other libraries as trajectory logs."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, Final

from creditflow.envs.errors import ConfigError, check_name
from creditflow.envs.files.checksummed_folder import belongs_to_checksummed_folder
from creditflow.train.arguments.options import seed
from creditflow.train.arguments.outputs import Output, add_input, add_output
from creditflow.train.progress import note

__all__ = ["add_import_arguments", "run_import"]

LOGS: Final = ("messages", "openenv", "searchr1", "trl", "verifiers", "verl", "verl-agent")
EXPORTED: Final = ("minari", "parquet")  # what `data export` wrote
IMPORTABLE: Final = (*LOGS, *EXPORTED, "webshop")
CHOICES: Final = {  # of a log's format, with their defaults
    "state_key": "observation",
    "id": "",
    "group": "",
    "reward": "",
    "done": "",
    "messages": "",
    "success": "",
    "success_at": 1.0,
    "turns": "roles",
}


def add_import_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the arguments of ``data import``."""
    parser.add_argument("name", help=f"what the files are, one of: {', '.join(IMPORTABLE)}")
    add_input(
        parser,
        "path",
        help="webshop: folder with the released files; minari, parquet: an exported folder; a log: its file (JSON Lines, JSON, Parquet)",
    )
    add_output(
        parser, "--out", Output(kind="either", owned=belongs_to_checksummed_folder), required=True, metavar="OUT",
        help="the log to write (.jsonl or .jsonl.gz); webshop: folder to create",
    )  # fmt: skip
    parser.add_argument(
        "--strict", action="store_true", help="stop at a malformed row instead of leaving it out and counting it"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--seed", type=seed, help="webshop: random seed for prices and price limits (default 42)")
    logs = parser.add_argument_group("another library's log")
    logs.add_argument(
        "--state-key", metavar="KEY",
        help="what names a state: observation (default), history, none (a key for every visit), or the path of a field: info.state",
    )  # fmt: skip
    logs.add_argument(
        "--id", metavar="FIELD", help="field that names a rollout, kept as its id (default: the format's own rule)"
    )
    logs.add_argument(
        "--done", metavar="FIELD",
        help="field that says how a rollout ended: true (by itself) or false (a limit cut it), or a word such as "
        "length or max_turns (default: done, if there is one; verifiers: its own)",
    )  # fmt: skip
    logs.add_argument(
        "--messages",
        metavar="FIELD",
        help="messages: field of the list of messages (default: messages, conversations and the like)",
    )
    logs.add_argument(
        "--group", metavar="FIELD", help="field that names a rollout's group (default: the format's own rule)"
    )
    logs.add_argument(
        "--reward",
        metavar="FIELD",
        help="field of the reward (default: the format's own); trl: columns with weights, a,b*0.5",
    )
    logs.add_argument(
        "--success", metavar="FIELD", help="field that says whether a rollout succeeded (default: the reward)"
    )
    logs.add_argument(
        "--success-at",
        type=float,
        metavar="X",
        help="count a rollout as successful if this number is at least X (default 1)",
    )
    logs.add_argument(
        "--turns", choices=("roles", "search", "single"),
        help="verl, trl: how a text without messages is cut into turns: roles (default), search (Search-R1's tags) or single",
    )  # fmt: skip


def run_import(args: argparse.Namespace) -> int:
    """Import files; print what was read and what was left out."""
    check_name("importable data", args.name, IMPORTABLE)
    set_options = {name for name in CHOICES if getattr(args, name) is not None}
    if args.name not in LOGS or args.name == "searchr1":
        _without_effect(args.name, set_options)
    if args.name not in ("trl", "verl"):
        _without_effect(args.name, set_options & {"turns"})
    if args.name != "messages":
        _without_effect(args.name, set_options & {"messages"})
    if args.name != "webshop":
        _without_effect(args.name, {"seed"} if args.seed is not None else set())
    if args.name in EXPORTED:
        return _import_exported(args)
    if args.name == "webshop":
        return _import_webshop(args)
    return _import_search_r1(args) if args.name == "searchr1" else _import_log(args)


def _without_effect(name: str, given: set[str]) -> None:
    for option in sorted(given):
        raise ConfigError(f"--{option.replace('_', '-')} has no effect on {name}; leave it out")


def _import_log(args: argparse.Namespace) -> int:
    from creditflow.train.adapters.logs.episodes import ImportSettings
    from creditflow.train.adapters.logs.reading import read_log
    from creditflow.wrappers.records.jsonl import write_jsonl

    chosen: dict[str, Any] = {name: getattr(args, name) for name in CHOICES if getattr(args, name) is not None}
    report = read_log(args.name, args.path, ImportSettings(**{**CHOICES, **chosen}, strict=args.strict))
    write_jsonl(args.out, report.log)
    if args.json:
        print(json.dumps({"out": args.out, **report.to_json()}, indent=1, allow_nan=False))
    else:
        print(f"{args.out}\n\n{report.to_text()}")
    return 0


def _import_exported(args: argparse.Namespace) -> int:
    from creditflow.train.adapters.export.minari import read_minari
    from creditflow.train.adapters.export.parquet import read_parquet
    from creditflow.train.adapters.export.pictures import PICTURES, copy_pictures
    from creditflow.wrappers.records.jsonl import write_jsonl
    from creditflow.wrappers.records.picture_folder import pictures_beside

    log = read_minari(args.path) if args.name == "minari" else read_parquet(args.path)
    groups = log.groups
    pictures = copy_pictures(groups, Path(args.path) / PICTURES, pictures_beside(args.out))
    rollouts = write_jsonl(args.out, log)
    if args.json:
        counts = {"groups": len(groups), "rollouts": rollouts, **pictures.to_json()}
        print(json.dumps({"out": args.out, "source": args.name, **counts}, indent=1))
    else:
        print(f"{args.out}: {rollouts} rollouts in {len(groups)} groups{pictures.to_text()}")
    return 0


def _import_search_r1(args: argparse.Namespace) -> int:
    from creditflow.train.adapters.logs.search_r1 import read_search_r1
    from creditflow.wrappers.records.jsonl import write_jsonl

    report = read_search_r1(args.path)
    write_jsonl(args.out, report.log)
    counts = {
        "rollouts": report.rollouts, "groups": len(report.groups), "turns": report.turns, "without_tags": report.without_tags,
        "unanswered": report.unanswered, "unread": report.unread, "disagreeing": report.disagreeing,
    }  # fmt: skip
    if args.json:
        print(json.dumps({"out": args.out, "source": "searchr1", **counts}, indent=1))
        return 0
    print(
        f"{args.out}: {report.rollouts} rollouts in {len(report.groups)} groups, {report.turns} turns; without a think "
        f"tag {report.without_tags}, unanswered {report.unanswered}, unparsed turns {report.unread}; "
        f"recorded exact match differs from ours in {report.disagreeing}"
    )
    return 0


def _import_webshop(args: argparse.Namespace) -> int:
    from creditflow.envs.webshop.catalogue.importing import import_webshop

    report = import_webshop(
        args.path, Path(args.out), seed=42 if args.seed is None else args.seed, strict=args.strict, replace=True,
        progress=_note_products,
    )  # fmt: skip
    if args.json:
        counts = {
            "out": str(report.path),
            "products": report.products,
            "goals": dict(report.goals),
            "bytes": report.bytes,
        }
        print(json.dumps({**counts, "left_out": dict(report.skipped), "notes": list(report.notes)}, indent=1))
        return 0
    goals = ", ".join(f"{count} {kind} goals" for kind, count in report.goals.items())
    print(f"{report.path}: {report.products} products, {goals}, {report.bytes / 2**20:.0f} MiB")
    for reason, count in report.skipped.items():
        print(f"  left out {count}: {reason}")
    for text in report.notes:
        print(f"  {text}")
    return 0


def _note_products(count: int) -> None:
    note(f"import: {count} products")
