"""Compare credit schemes by how fast a policy learns, in the suite `shared` with exact values.

  creditflow bench --out runs/bench
  creditflow bench --preset full --out runs/full
  creditflow bench --envs sokoban@levels.txt,webshop --schemes grpo,graphgpo --out runs/mine
  creditflow bench --envs 'alfworld@DATA#released-v2:valid_unseen' --out runs/released
  creditflow bench --preset protocol --envs alfworld,webshop --out runs/protocol
  creditflow bench --schemes 'grpo,graphgpo{distance_discount=.1},graphgpo{distance_discount=.5}' --out runs/discounts
  creditflow bench --show runs/full/results.json

In the suite `shared` one policy over local features learns many grids or Sokoban levels at once, with the trainer's
loss. In the other suites every task has a tabular policy of its own.

The benchmark provides the annotations that some schemes read: --schemes pica means pica[fitted], with means over
earlier rollouts, and also pica[exact] where exact values exist. --preset full includes all of these; other presets
include only the ones you name.

A scheme's name can have values of its parameters, such as graphgpo{distance_discount=0.3} or
rewardflow{discount=0.9;action_weight=1}, so that several values are compared as the papers do in their tables of γ, α and λ.

The preset protocol also trains with Adam, at two rates, where tasks are played through their environment.

Writes results.json, rollouts-*.jsonl.gz, report.html, and run.json (everything that determines the results).
--resume
with the same settings finishes an interrupted run. With other settings or other code it is an error; --force starts
over. Exit code 1 means that a sanity check failed: do not use the results.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from creditflow.envs.errors import ConfigError
from creditflow.envs.reading.failures import loading
from creditflow.train.arguments.options import add_seed, workers
from creditflow.train.arguments.outputs import Output, add_input, add_json, add_output, named
from creditflow.train.arguments.programs import add_code
from creditflow.train.bench.document import RunOptions, read_results
from creditflow.train.bench.methods import canonical_name
from creditflow.train.bench.presets import PRESETS
from creditflow.train.bench.report.page import document_text, headline, require_report, write_report
from creditflow.train.bench.report.sanity import require_sane
from creditflow.train.bench.run import run_bench
from creditflow.train.bench.suites import SUITES, suite_name
from creditflow.train.run.identity import RUN_FILE
from creditflow.wrappers import credit

__all__ = ["add_arguments", "run"]

DEFAULT_SUITE = "shared"
BENCH_FILES = ("results.json", RUN_FILE, "report.html", "rollouts-*.jsonl.gz", "unfinished")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    add_code(
        parser,
        "--envs",
        "environment",
        listed=True,
        metavar="SUITES",
        help=f"comma-separated suites: {', '.join(SUITES)}, your own environment (path/to/file.py:NAME), or ENV@PATH for your own files, ENV@PATH#PANEL:SPLIT for those that a panel lists (default {DEFAULT_SUITE})",
    )
    add_code(
        parser,
        "--schemes",
        "scheme",
        listed=True,
        default="",
        help=f"comma-separated schemes (default all): {', '.join(credit.names())}",
    )
    parser.add_argument("--preset", choices=[*PRESETS], default="quick", help="amount of work (default quick)")
    add_seed(parser, "tasks and rollouts")
    parser.add_argument(
        "--workers", type=workers, default=min(2, os.cpu_count() or 1), help="number of processes (default 2)"
    )
    parser.add_argument(
        "--resume", action="store_true", help="continue an interrupted run in DIR, with the same settings"
    )
    add_output(
        parser,
        "--out",
        Output(kind="folder", owned=named(*BENCH_FILES), cleared=True, first=RUN_FILE),
        metavar="DIR",
        help="output folder",
    )
    add_input(
        parser,
        "--show",
        metavar="FILE",
        help="print the tables of a run from its results.json[.gz]; with --out also write its page",
    )
    add_json(parser, "print the content of results.json instead of tables")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    for name in ("schemes", "envs", "resume"):
        if args.show and getattr(args, name):
            raise ConfigError(f"--{name} is about what is measured now, so it has no effect with --show; leave it out")
    if args.show:
        document = read_results(Path(args.show))
        with loading(f"{args.show}: the parts of the file contradict each other"):
            return _present(document, Path(args.out) if args.out else None, args)
    if not args.out:
        raise ConfigError("creditflow bench needs --out DIR (or --show FILE)")
    schemes = list(dict.fromkeys(canonical_name(name) for name in args.schemes.split(",") if name))
    named = DEFAULT_SUITE if args.envs is None else args.envs
    suites = list(dict.fromkeys(spec for spec in named.split(",") if spec))
    if not suites:
        raise ConfigError("pass at least one suite with --envs, such as shared, sokoban or sokoban@levels.txt")
    for spec in suites:
        suite_name(spec)
    require_report()
    out = Path(args.out)
    options = RunOptions(out, args.workers, tuple(sys.argv[1:]), args.resume)
    return _present(run_bench(suites, schemes, args.preset, options, seed=args.seed), out, args)


def _present(document: Mapping[str, Any], out: Path | None, args: argparse.Namespace) -> int:
    """Print what was asked for; the last lines say what won, how sure that is, and where the report is."""
    print(json.dumps(document, indent=1, allow_nan=False) if args.json else document_text(document))
    opening = headline(document)
    lines = [f"What won: {opening.sentence}", f"How sure: {opening.trust}"]
    if out is not None:
        write_report(document, out / "report.html")
        lines.append(f"Report: {out / 'report.html'}")
    if out is not None or not args.json:
        print("", *lines, sep="\n", file=sys.stderr if args.json else sys.stdout)
    require_sane(document)
    return 0
