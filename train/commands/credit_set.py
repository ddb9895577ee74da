"""Build a credit set or a dataset, and score predictions: ``data build credit-set``, ``data build dataset``, ``bench --predictions``."""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

from creditflow.train.arguments.options import positive, seed
from creditflow.train.arguments.outputs import Output, add_input, add_output, named
from creditflow.train.credit_set.settings import SETTINGS, BuildSettings, RolloutSettings
from creditflow.train.progress import note

__all__ = [
    "SCORES",
    "add_build_arguments",
    "add_dataset_arguments",
    "add_score_arguments",
    "build",
    "build_dataset",
    "score",
]

SCORES = "scores.json"


def add_build_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the arguments of ``data build credit-set``."""
    defaults = BuildSettings()
    parser.add_argument(
        "--turns", type=positive, default=defaults.turns, metavar="N",
        help=f"number of turns (default {defaults.turns})",
    )  # fmt: skip
    parser.add_argument(
        "--forks", type=positive, default=defaults.forks, metavar="K",
        help=f"number of continuations per value where there are no tables; must be even (default {defaults.forks})",
    )  # fmt: skip
    parser.add_argument(
        "--envs", default=",".join(SETTINGS), metavar="ENVS",
        help=f"comma-separated environments (default {','.join(SETTINGS)})",
    )  # fmt: skip
    parser.add_argument(
        "--agent", action="append", default=[], metavar="AGENT",
        help="language model whose turns are recorded, such as hf:PATH (repeatable; default: a word n-gram model)",
    )  # fmt: skip
    parser.add_argument("--seed", type=seed, default=0, help="random seed (default 0)")
    parser.add_argument(
        "--workers", type=positive, default=min(2, os.cpu_count() or 1), metavar="N",
        help="number of processes (default 2)",
    )  # fmt: skip
    parser.add_argument("--resume", action="store_true", help="continue an interrupted build with the same settings")
    add_output(
        parser, "--out", Output(grows=True), required=True, metavar="FILE", help="file to write, .jsonl or .jsonl.gz"
    )


def build(args: argparse.Namespace) -> int:
    """Run ``data build credit-set``."""
    from creditflow.train.credit_set.build import build_credit_set

    settings = BuildSettings(
        turns=args.turns, forks=args.forks, seed=args.seed, agents=tuple(args.agent),
        envs=tuple(name for name in args.envs.split(",") if name),
    )  # fmt: skip
    began, out = time.monotonic(), Path(args.out)
    build_credit_set(settings, out, workers=args.workers, resume=args.resume)
    note(f"credit set: {time.monotonic() - began:.0f} s")
    print(
        f"{out}: {settings.turns} turns of {', '.join(settings.policies)} in {', '.join(settings.envs)}, "
        f"{out.stat().st_size / 2**20:.2f} MiB"
    )
    return 0


def add_dataset_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the arguments of ``data build dataset``."""
    turns, rollouts = BuildSettings(), RolloutSettings()
    add_input(
        parser, "--credit-set", metavar="FILE",
        help=f"finished credit set to publish (default: {turns.turns} turns are built, which takes minutes)",
    )  # fmt: skip
    parser.add_argument(
        "--groups", type=positive, default=rollouts.groups, metavar="N",
        help=f"number of groups of rollouts, each of another Sokoban level (default {rollouts.groups})",
    )  # fmt: skip
    parser.add_argument(
        "--group-size", type=positive, default=rollouts.group_size, metavar="G",
        help=f"group size, rollouts per level (default {rollouts.group_size})",
    )  # fmt: skip
    parser.add_argument("--seed", type=seed, default=0, help="random seed (default 0)")
    parser.add_argument(
        "--workers", type=positive, default=min(2, os.cpu_count() or 1), metavar="N",
        help="number of processes that build the credit set (default 2)",
    )  # fmt: skip
    owned = named("README.md", "LICENSE", "manifest.json", "credit_set", "rollouts")
    add_output(
        parser, "--out", Output(kind="folder", owned=owned), required=True, metavar="DIR", help="folder to create"
    )


def build_dataset(args: argparse.Namespace) -> int:
    """Run ``data build dataset``. The folder gets its name when everything is in it."""
    from creditflow.envs.files.atomic import new_folder
    from creditflow.train.credit_set.build import build_credit_set
    from creditflow.train.credit_set.dataset import write_dataset

    settings = RolloutSettings(groups=args.groups, group_size=args.group_size, seed=args.seed)
    out = Path(args.out)
    given = f" --credit-set {Path(args.credit_set).name}" if args.credit_set else ""
    numbers = f"--groups {args.groups} --group-size {args.group_size} --seed {args.seed}"
    command = f"creditflow data build dataset{given} {numbers} --out {out.name}"
    with new_folder(out, replace=True) as temporary:
        built = temporary / "turns.jsonl.gz"
        if not args.credit_set:
            build_credit_set(BuildSettings(seed=args.seed), built, workers=args.workers)
        rows = write_dataset(temporary, Path(args.credit_set or built), settings, name=out.name, command=command)
        built.unlink(missing_ok=True)
    for name, count in rows.items():
        print(f"{out / name}: {count} rows")
    return 0


def add_score_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the arguments of ``bench`` that score predictions."""
    add_input(
        parser, "--predictions", metavar="FILE",
        help="score a judge's ratings instead: JSON Lines of turn_id, score and, if rated, alternatives",
    )  # fmt: skip
    add_input(
        parser,
        "--credit-set",
        metavar="FILE",
        help="credit set that --predictions rates (default: the embedded sample)",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print JSON instead of tables: the document of results.json, or with --predictions the scores",
    )


def score(args: argparse.Namespace) -> int:
    """Run ``bench --predictions``."""
    from creditflow.envs.files.atomic import atomic_writer
    from creditflow.train.credit_set.predictions import read_predictions
    from creditflow.train.credit_set.reading import open_credit_set
    from creditflow.train.credit_set.scoring import score_document, scores_text
    from creditflow.train.run.digest import file_digest

    name, turns = open_credit_set(args.credit_set)
    document = {
        "credit_set": name,
        "predictions": {"name": Path(args.predictions).name, "digest": file_digest(args.predictions)},
        **score_document(turns, read_predictions(args.predictions, turns)),
    }
    text = json.dumps(document, indent=1, allow_nan=False) + "\n"
    if args.out:
        with atomic_writer(Path(args.out) / SCORES) as stream:
            stream.write(text)
    print(text if args.json else scores_text(document))
    return 0
