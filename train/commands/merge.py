"""Merge similar text states of a trajectory log, and report the effect on states and credit.

  creditflow merge rollouts.jsonl
  creditflow merge --by hash@0.9 --by hf:models/e5-small@0.95 --schemes graphgpo rollouts.jsonl
  creditflow merge --text observation --by hash@0.9 search.jsonl --write merged.jsonl

Without --write: tables that compare every way of merging with the true states of the log. With --write: the log with
every text key replaced by that of its cluster, for any scheme with `--set key=text`.

none          equal text keys are one state
state         the true states
hash@T        similar n-grams, similarity at least T; what the schemes' own merge=hash does
hf:MODEL@T    the same with a text encoder from a folder or the local cache (needs creditflow[train])
difflib@T     the released greedy clusters, in graph and comparison groups; depends on the order of rollouts
released@T    the same in the graph only (graphgpo)
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

import numpy as np

from creditflow.envs.errors import ConfigError
from creditflow.train.analyses.merging import MERGES, SCHEMES, Merge, merging, merging_json, merging_text
from creditflow.train.arguments.logs import add_log_argument, open_output, read_log
from creditflow.train.arguments.outputs import add_output
from creditflow.train.arguments.plugins import add_code
from creditflow.train.progress import progress
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import write_jsonl

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    add_log_argument(parser)
    parser.add_argument(
        "--by", action="append", metavar="MERGE", help=f"way of merging (repeatable); default {' '.join(MERGES)}"
    )
    parser.add_argument(
        "--text", choices=["key", "observation"], default="key",
        help="text that is compared; observation is for logs whose text keys are digests",
    )  # fmt: skip
    add_code(
        parser,
        "--schemes",
        "scheme",
        listed=True,
        default=",".join(SCHEMES),
        metavar="NAMES",
        help="comma-separated schemes whose credit is compared",
    )
    add_output(parser, "--write", metavar="OUT.jsonl", help="write the merged log (one --by) instead of the tables")
    parser.add_argument("--json", action="store_true", help="print the tables as JSON")
    add_output(parser, "--out", default="-", metavar="FILE", help="file for the tables; - (default) is standard output")


def _text_states(groups: Sequence[Group]) -> int:
    return sum(len(np.unique(group.states("text").state)) for group in groups)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    groups = read_log(args)
    if args.write:
        if args.by is None or len(args.by) != 1:
            raise ConfigError("--write needs one way of merging: give --by once")
        way = Merge.parse(args.by[0])
        if way.kind in ("none", "state", "released"):
            raise ConfigError(
                f"--by {way.name} changes no text keys; to write a log use hash@T, hf:MODEL@T or difflib@T"
            )
        changed = [way.apply(group, args.text)[0] for group in progress(groups, "merge", len(groups))]
        write_jsonl(args.write, changed)
        before, after = _text_states(groups), _text_states(changed)
        print(f"{len(groups)} groups: {before} text states with turns, {after} after merging", file=sys.stderr)
        return 0
    rows = merging(groups, args.by or MERGES, [n for n in args.schemes.split(",") if n], source=args.text)
    text = json.dumps(merging_json(rows), indent=1, allow_nan=False) if args.json else merging_text(rows)
    with open_output(args.out) as stream:
        print(text, file=stream)
    return 0
