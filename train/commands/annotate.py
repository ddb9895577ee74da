"""Add the annotations that some credit schemes read: values from models, LLM judges, oracles or continuations.

  creditflow annotate --with oracle --env sokoban log.jsonl --out log.oracle.jsonl
  creditflow annotate --with critic:runs/ppo/critic log.jsonl --out log.critic.jsonl
  creditflow annotate --list

Finished batches are written to OUT.partial, which becomes OUT at the end. After an interruption, run the same command
with --resume; the result is the same file. The log records where every annotation comes from.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from creditflow.envs.errors import ConfigError
from creditflow.envs.registration import env_id
from creditflow.train.annotate.log import annotate_log
from creditflow.train.annotate.registry import ANNOTATORS, spelled
from creditflow.train.annotate.workers import AnnotatorSpec
from creditflow.train.arguments.options import add_env_arguments, env_arguments, positive
from creditflow.train.arguments.outputs import Output, add_json, add_log_argument, add_output, read_log
from creditflow.train.run.recorded import as_recorded, recorded_run
from creditflow.train.settings.overrides import apply_overrides

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    add_log_argument(parser, optional=True, grouping=False)
    parser.add_argument(
        "--with", dest="annotator", metavar="NAME", help=f"annotator, one of: {', '.join(map(spelled, ANNOTATORS))}"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="parameter of the annotator (repeatable)"
    )
    add_env_arguments(parser)
    parser.set_defaults(env="")
    parser.add_argument(
        "--device", default="auto", help="device that runs the models: auto, cpu, cuda, … (default auto)"
    )
    parser.add_argument(
        "--batch", type=positive, default=16, metavar="N", help="number of groups per batch (default 16)"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace existing annotations of the same name")
    parser.add_argument("--list", action="store_true", help="list the annotators")
    add_json(parser, "with --list: print the list as JSON")
    add_output(
        parser, "--out", Output(grows=True), metavar="OUT.jsonl", help="annotated log to write, .jsonl or .jsonl.gz"
    )


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    if args.json and not args.list:
        raise ConfigError("--json is for --list: annotations are written to --out as a log")
    if args.list:
        rows: list[dict[str, Any]] = [
            {"name": name, "spec": spelled(name), "values": list(entry.values), "meaning": entry.meaning}
            for name, entry in ANNOTATORS.items()
        ]
        lines = (f"{row['spec']:24} {', '.join(row['values'])}: {row['meaning']}" for row in rows)
        print(json.dumps(rows, indent=1) if args.json else "\n".join(lines))
        return 0
    if not args.annotator or not args.input or not args.out:
        raise ConfigError(
            "annotate needs an annotator, a log and an output: creditflow annotate --with NAME IN.jsonl --out OUT.jsonl"
        )
    if args.out == "-":
        raise ConfigError(
            "annotations are written to a file, so that an interrupted command can be resumed: --out OUT.jsonl"
        )
    groups = read_log(args)
    options = as_recorded(groups, env_id(args.env), env_arguments(args)) if args.env else {}
    spec = AnnotatorSpec(
        args.annotator,
        apply_overrides({}, args.set),
        env_id(args.env) if args.env else "",
        options,
        args.device,
        recorded_run(groups),
    )
    annotator = spec.annotator()
    finished = annotate_log(
        groups, annotator, Path(args.out), batch=args.batch, resume=args.resume, overwrite=args.overwrite
    )
    names = ", ".join((*annotator.turn_names, *annotator.trajectory_names, *annotator.token_names))
    print(
        f"{args.annotator}: {names} for {sum(map(len, groups))} trajectories in {len(groups)} groups"
        + (f", {finished} of them already annotated" if finished else ""),
        file=sys.stderr,
    )
    return 0
