"""List embedded data, compare released data with manifests, and import, generate, verify and label your own data.

creditflow data list                                    embedded panels, and the argument that takes your own files
creditflow data check alfworld "$ALFWORLD_DATA"         released games: present, missing or reworded
creditflow data check webshop FOLDER                    the released 1,000 products: differences and their effect
creditflow data check hotpotqa FILE --only dev          questions of a fixed slice (2wiki, musique likewise)
creditflow data import webshop FOLDER --out STORE       the original product files, verified and indexed once
creditflow data import verifiers FILE --out LOG.jsonl   another library's log (trl, verl, openenv, verl-agent, searchr1) as ours
creditflow data export LOG.jsonl --format hf --out DIR  a log as Parquet, for datasets or Minari, with a data card
creditflow data build wiki --articles 1000 --out WIKI   a fictional encyclopedia: passages, questions, a search index
creditflow data build credit-set --out TURNS.jsonl.gz   turns of agents with their values, to score judges on
creditflow data build dataset --out DIR                 turns and rollouts with values as a dataset folder with a card
creditflow data synthesize --corpus FILE --limit 1000 --out QUESTIONS.jsonl
                                                        multi-hop questions with entity graphs over any passages
creditflow data verify webshop STORE                    check every file against its checksum (dataset, wikisearch likewise)
creditflow data label LOG.jsonl --out LABELS.jsonl      pivots of search rollouts, to train a success model on
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from creditflow.envs.errors import check_name
from creditflow.envs.registration import ENVIRONMENTS
from creditflow.envs.tasks import load_panel, panel_names
from creditflow.train.arguments.options import positive, seed
from creditflow.train.arguments.outputs import Output, add_input, add_output, named
from creditflow.train.commands.credit_set import add_build_arguments, add_dataset_arguments, build_dataset
from creditflow.train.commands.credit_set import build as build_credit_set
from creditflow.train.commands.data_check import add_check_arguments, run_check
from creditflow.train.commands.data_export import add_export_arguments, run_export
from creditflow.train.commands.data_import import add_import_arguments, run_import
from creditflow.train.commands.data_synthesize import add_synthesize_arguments, run_synthesize
from creditflow.train.progress import note

__all__ = ["add_arguments", "run"]

VERIFIABLE = ("webshop", "wikisearch", "dataset")
WIKI = named("passages.jsonl.gz", "index", "train.jsonl", "valid.jsonl", "test.jsonl")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="list|check|import|export|build|synthesize|verify|label"
    )
    listing = actions.add_parser("list", help="list embedded panels, and the argument that takes your own files")
    listing.add_argument("--json", action="store_true", help="print the list as JSON")
    add_check_arguments(actions.add_parser("check", help="compare released data with the embedded manifest"))
    add_import_arguments(actions.add_parser("import", help="import released files, or another library's log"))
    add_export_arguments(actions.add_parser("export", help="write a log in the format of a data library"))
    building = actions.add_parser("build", help="generate data")
    generated = building.add_subparsers(dest="name", required=True, metavar="wiki|credit-set|dataset")
    wiki = generated.add_parser("wiki", help="a fictional encyclopedia")
    wiki.add_argument(
        "--articles", type=positive, required=True, metavar="N", help="number of articles, 200 to 1,000,000"
    )
    wiki.add_argument("--questions", type=int, default=0, metavar="N", help="number of questions (default 0)")
    wiki.add_argument("--index", action="store_true", help="write a search index instead of a passage file")
    add_output(wiki, "--out", Output(kind="folder", owned=WIKI), required=True, metavar="WIKI", help="folder to create")
    add_build_arguments(generated.add_parser("credit-set", help="turns with their values, to score judges on"))
    add_dataset_arguments(generated.add_parser("dataset", help="turns and rollouts with values, as a dataset folder"))
    add_synthesize_arguments(actions.add_parser("synthesize", help="make multi-hop questions over any passages"))
    verifying = actions.add_parser("verify", help="check a store")
    verifying.add_argument("name", help=f"kind of store, one of: {', '.join(VERIFIABLE)}")
    add_input(verifying, "path", help="folder of the store")
    labelling = actions.add_parser("label", help="label the pivots of search rollouts")
    add_input(labelling, "log", metavar="LOG.jsonl", help="trajectory log from wikisearch, with its tasks")
    add_output(
        labelling, "--out", Output(also=_audit_file), required=True, metavar="LABELS.jsonl",
        help="label file to write, one line per trajectory kept",
    )  # fmt: skip
    labelling.add_argument(
        "--judge",
        metavar="URL#MODEL",
        help="LLM judge on an OpenAI-compatible server, used instead of the rule; it is first tried on hand-made cases",
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
    labelling.add_argument(
        "--seed", type=seed, default=0, help="random seed for the choice of audited episodes (default 0)"
    )


def _list(as_json: bool) -> None:
    """Print the embedded panels with their sizes, and the argument for files of one's own."""
    rows: list[dict[str, Any]] = []
    for name, entry in ENVIRONMENTS.items():
        panels = {panel: len(load_panel(name, panel).rows) for panel in panel_names(name)}
        rows.append({"name": name, "files": entry.files, "panels": panels})
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        print(f"{row['name']:12} your own: --env-set {row['files']}=PATH" if row["files"] else row["name"])
        for panel, size in row["panels"].items():
            print(f"{'':12} embedded: {panel}, {size} tasks")


def run(args: argparse.Namespace) -> int:
    """Run the command. A folder that it creates replaces an empty one; any other only with ``--force``."""
    if args.action == "list":
        _list(args.json)
        return 0
    if args.action == "check":
        return run_check(args)
    if args.action == "build":
        return BUILDS[args.name](args)
    if args.action == "label":
        return _label(args)
    if args.action == "import":
        return run_import(args)
    if args.action == "export":
        return run_export(args)
    if args.action == "synthesize":
        return run_synthesize(args)
    check_name("store to verify", args.name, VERIFIABLE)
    return _verify(args.name, args.path)


def _verify(name: str, path: str) -> int:
    if name == "webshop":
        from creditflow.envs.webshop.catalogue.store import verify_store

        files = verify_store(path)["files"]
    elif name == "dataset":
        from creditflow.train.credit_set.dataset import verify_dataset

        files = verify_dataset(path)
    else:
        from creditflow.envs.wikisearch.retrieval.store import verify_store as verify_index

        files = verify_index(path).header["files"]
    print(f"{path}: intact; {len(files)} files")
    return 0


def _build_wiki(args: argparse.Namespace) -> int:
    from creditflow.envs.wikisearch.world.build import build_wiki

    build_wiki(
        args.out, articles=args.articles, questions=args.questions, index=args.index,
        replace=True, progress=lambda count: note(f"build: {count} articles"),
    )  # fmt: skip
    print(f"{args.out}: {args.articles} articles, {args.questions} questions")
    return 0


BUILDS = {"wiki": _build_wiki, "credit-set": build_credit_set, "dataset": build_dataset}


def _audit_file(labels: Path) -> Path:
    return labels.with_suffix(".audit.txt")


def _label(args: argparse.Namespace) -> int:
    from creditflow.train.annotate.success.judge_cases import CASES, missed_cases
    from creditflow.train.annotate.success.labelling import agreement, judge_labeller, label_log, write_audit
    from creditflow.train.annotate.success.labels import write_labels
    from creditflow.wrappers.records.jsonl import read_groups

    labeller = judge_labeller(args.judge, args.cache) if args.judge else None
    groups = read_groups(args.log)
    if labeller is not None:
        missed = missed_cases(labeller.judge)
        note(f"judge: {len(CASES) - len(missed)} of {len(CASES)} hand-made cases labelled as the rules say")
        if missed:
            note(f"judge: not as the rules say: {'; '.join(missed)}")
    result = label_log(groups, labeller)
    write_labels(args.out, result.labels)
    turn_labels = "".join(label for entry in result.labels for label in entry.turn_labels)
    print(
        f"{args.out}: {len(result.labels)} trajectories, {turn_labels.count('+')} turns '+', {turn_labels.count('-')} '-', "
        f"success {result.success:.3f}"
    )
    for reason, count in result.skipped.items():
        print(f"  left out {count}: {reason}")
    if labeller is not None:
        agreed = agreement(groups, result.labels, label_log(groups).labels)
        print(
            f"  agreement with the rule: {agreed.equal:.3f} of {agreed.turns} tool turns (kappa {agreed.kappa:.2f}); '+' by the "
            f"judge alone {agreed.only_first}, by the rule alone {agreed.only_second}"
        )
    if args.audit > 0:
        audit = _audit_file(Path(args.out))
        count = write_audit(audit, groups, result.labels, args.audit, args.seed)
        print(f"{audit}: {count} labelled episodes for a human audit")
    return 0
