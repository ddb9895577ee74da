"""Compare credit schemes by how fast a policy learns, and with exact values where a suite's states fit a table.

  creditflow bench --out runs/bench
  creditflow bench --envs shared --out runs/shared
  creditflow bench --preset full --envs sokoban,grids --out runs/full
  creditflow bench --envs sokoban@levels.txt,webshop --schemes grpo,graphgpo --out runs/mine
  creditflow bench --envs 'alfworld@DATA#released-v2:valid_unseen' --out runs/released
  creditflow bench --preset protocol --out runs/protocol
  creditflow bench --envs grids --schemes grpo,graphgpo --sweep distance_discount=.1,.3,.5,.8 --out runs/sweep
  creditflow bench --show runs/full/results.json
  creditflow bench --show runs/alfworld/results.json --latex

In the suite shared one policy over local features learns many grids or Sokoban levels at once, with the trainer's loss; in
the others every task has a separate table.

Schemes that read annotations get them from the benchmark itself: --schemes pica means pica[fitted], with means over
earlier rollouts, and also pica[exact], with exact values, where there are any. --preset full includes all of these; other presets include only the ones you name.

--sweep compares values of parameters, as the papers' tables of γ, α and λ do: a scheme is replaced by one variant per value, named with
it, graphgpo{distance_discount=0.3}, in tables, plots and results. --schemes accepts this name too. Repeat --sweep for a grid.
A scheme without the parameter stays as it is. SCHEME.PARAMETER varies one scheme only. Schemes by name: creditflow schemes NAME.

The preset protocol crosses loss average, centring, scale and optimiser, and prints for every pair of methods in how many settings
its order holds and on which factor it depends.

Writes results.json, rollouts-*.jsonl.gz, *.png, report.html, and run.json (everything that determines the results).
An interrupted run that is started again with --resume and the same settings does only what is missing. With other
settings or other code --resume is an error, and --force starts over. Exit code 1 means a sanity check failed; do not use the results.
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
from creditflow.train.arguments.options import seed, workers
from creditflow.train.arguments.outputs import Output, add_input, add_output, named
from creditflow.train.arguments.plugins import add_code
from creditflow.train.bench.document import RunOptions
from creditflow.train.bench.presets import PRESETS
from creditflow.train.bench.report.figures import require_plots
from creditflow.train.bench.report.page import headline, require_report, write_report
from creditflow.train.bench.report.plots import document_plots, draw_plots
from creditflow.train.bench.report.sanity import require_sane
from creditflow.train.bench.report.tables import latex_tables
from creditflow.train.bench.report.text import document_text
from creditflow.train.bench.results import read_results
from creditflow.train.bench.run import run_bench
from creditflow.train.bench.suites import SUITES, suite_name
from creditflow.train.bench.variants.grid import parse_sweeps, swept_names
from creditflow.train.run.identity import RUN_FILE
from creditflow.wrappers import credit

__all__ = ["add_arguments", "run"]

BENCH_FILES = ("results.json", RUN_FILE, "report.html", "rollouts-*.jsonl.gz", "*.png", "unfinished")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    add_code(
        parser,
        "--envs",
        "environment",
        listed=True,
        metavar="SUITES",
        help=f"comma-separated suites: {', '.join(SUITES)}, your own environment (path/to/file.py:NAME), or ENV@PATH for your own files, ENV@PATH#PANEL:SPLIT for those that a panel lists (default shared,sokoban,grids)",
    )
    add_code(
        parser,
        "--schemes",
        "scheme",
        listed=True,
        default="",
        help=f"comma-separated schemes (default all): {', '.join(credit.names())}",
    )
    parser.add_argument(
        "--sweep", action="append", default=[], metavar="[SCHEME.]PARAMETER=VALUES",
        help="compare every scheme of --schemes that has the parameter with each of these comma-separated values; repeat it for a grid",
    )  # fmt: skip
    parser.add_argument("--preset", choices=[*PRESETS], default="quick", help="amount of work (default quick)")
    parser.add_argument("--seed", type=seed, default=0, help="random seed for tasks and rollouts (default 0)")
    parser.add_argument(
        "--workers", type=workers, default=min(2, os.cpu_count() or 1), help="number of processes (default 2)"
    )
    parser.add_argument(
        "--resume", action="store_true", help="continue an interrupted run in DIR, with the same settings"
    )
    add_output(
        parser, "--out", Output(kind="folder", owned=named(*BENCH_FILES), cleared=True, first=RUN_FILE), metavar="DIR",
        help="output folder",
    )  # fmt: skip
    add_input(
        parser,
        "--show",
        metavar="FILE",
        help="print the tables of a run from its results.json[.gz]; with --out also its page",
    )
    parser.add_argument(
        "--latex", action="store_true", help="print scores by task type as LaTeX tables (alfworld, webshop, wikisearch)"
    )
    parser.add_argument(
        "--json", action="store_true", help="print the document of results.json as JSON instead of tables"
    )


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    if args.latex and args.json:
        raise ConfigError("--latex prints tables of suites; leave it out, or leave out --json")
    for name in ("sweep", "schemes", "envs", "resume"):
        if args.show and getattr(args, name):
            raise ConfigError(f"--{name} is about what is measured now, so it has no effect with --show; leave it out")
    if args.show:
        document = read_results(Path(args.show))
        with loading(f"{args.show}: the parts of the file contradict each other"):
            return _present(document, Path(args.out) if args.out else None, args)
    if not args.out:
        raise ConfigError("creditflow bench needs --out DIR (or --show FILE)")
    schemes = swept_names([name for name in args.schemes.split(",") if name], parse_sweeps(args.sweep))
    named = PRESETS[args.preset].envs if args.envs is None else args.envs
    suites = list(dict.fromkeys(spec for spec in named.split(",") if spec))
    if not suites:
        raise ConfigError("pass at least one suite with --envs, such as shared, sokoban, grids or sokoban@levels.txt")
    for spec in suites:
        suite_name(spec)
    require_report()
    require_plots()
    out = Path(args.out)
    options = RunOptions(out, args.workers, tuple(sys.argv[1:]), args.resume)
    return _present(run_bench(suites, schemes, args.preset, options, seed=args.seed), out, args)


def _present(document: Mapping[str, Any], out: Path | None, args: argparse.Namespace) -> int:
    """Print what was asked for; the last lines say what won, how sure that is, and where the report is."""
    if args.latex:
        print(_latex(document))
    else:
        print(json.dumps(document, indent=1, allow_nan=False) if args.json else document_text(document))
    opening = headline(document)
    lines = [f"What won: {opening.sentence}", f"How sure: {opening.trust}"]
    if out is not None:
        draw_plots(document_plots(document), out)
        write_report(document, out / "report.html")
        lines.append(f"Report: {out / 'report.html'}")
    if out is not None or not (args.json or args.latex):
        print("", *lines, sep="\n", file=sys.stderr if args.json or args.latex else sys.stdout)
    require_sane(document)
    return 0


def _latex(document: Mapping[str, Any]) -> str:
    """The tables of scores by task type of all played suites.

    Raises:
        ConfigError: there is none.
    """
    tables = [text for suite in document["suites"] if "rows" in suite and (text := latex_tables(suite))]
    if not tables:
        raise ConfigError(
            "--latex prints scores by task type of suites that are played: alfworld, webshop and wikisearch (of results written by "
            "this release); the other tables are in --json and report.html"
        )
    return "\n\n".join(tables)
