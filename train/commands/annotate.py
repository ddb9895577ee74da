"""Write named numbers into a trajectory log: models, judges, oracles and trials annotate, credit schemes read.

  creditflow annotate --with oracle --env sokoban log.jsonl --out log.oracle.jsonl
  creditflow annotate --with critic:runs/ppo/critic log.jsonl --out log.critic.jsonl
  creditflow annotate --list

Batches are written to OUT.partial as they finish; OUT appears when all are there. After an interruption the same
command with --resume goes on where it stopped and gives the same file. Every number keeps its provenance in the log.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

from creditflow.envs.errors import ConfigError
from creditflow.envs.registration import env_id, make
from creditflow.train.annotate.log import annotate_log
from creditflow.train.annotate.registry import ANNOTATORS, Context, make_annotator
from creditflow.train.commands.arguments.options import add_env_arguments, env_arguments, parse_settings, positive
from creditflow.train.commands.arguments.outputs import Output, add_input, add_output
from creditflow.wrappers.records.jsonl import read_groups

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    add_input(parser, "input", nargs="?", metavar="IN.jsonl", help="a trajectory log; - reads standard input")
    parser.add_argument(
        "--with", dest="annotator", metavar="NAME", help=f"one of: {', '.join(map(_written, ANNOTATORS))}"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a parameter of the annotator (repeat)"
    )
    add_env_arguments(parser)
    parser.set_defaults(env="")
    parser.add_argument("--device", default="auto", help="of models: auto, cpu, cuda, … (default auto)")
    parser.add_argument("--batch", type=positive, default=16, metavar="N", help="groups at a time (default 16)")
    parser.add_argument("--overwrite", action="store_true", help="write over numbers of the same names")
    parser.add_argument("--resume", action="store_true", help="go on with what an interrupted command left of OUT")
    parser.add_argument("--list", action="store_true", help="say what annotators there are")
    add_output(parser, "--out", Output(grows=True), metavar="OUT.jsonl", help="a .jsonl or .jsonl.gz file")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    if args.list:
        for name, (_, _, writes) in ANNOTATORS.items():
            print(f"{_written(name):24} {writes}")
        return 0
    if not args.annotator or not args.input or not args.out:
        raise ConfigError(
            "name an annotator, a log and where to write: creditflow annotate --with NAME IN.jsonl --out OUT.jsonl"
        )
    if args.out == "-":
        raise ConfigError("annotations go to a file, from which an interrupted command can be resumed: --out OUT.jsonl")
    options = env_arguments(args) if args.env else {}
    make_env = partial(make, env_id(args.env), **options) if args.env else None
    context = Context(parse_settings(args.set), make_env, args.device, _deciding(options))
    annotator = make_annotator(args.annotator, context)
    groups = read_groups(sys.stdin if args.input == "-" else args.input)
    found = annotate_log(
        groups, annotator, Path(args.out), batch=args.batch, resume=args.resume, overwrite=args.overwrite
    )
    names = ", ".join((*annotator.turn_names, *annotator.trajectory_names, *annotator.token_names))
    print(
        f"{args.annotator}: {names} for {sum(map(len, groups))} trajectories in {len(groups)} groups"
        + (f", {found} of them there already" if found else ""),
        file=sys.stderr,
    )
    return 0


def _deciding(options: dict[str, Any]) -> dict[str, Any]:
    """Arguments of the environment that numbers depend on: where its tasks are listed is not among them."""
    return {name: value for name, value in options.items() if name != "panel"}


def _written(name: str) -> str:
    """A name as it is typed."""
    argument = ANNOTATORS[name][1]
    return f"{name}:{argument}" if argument else name
