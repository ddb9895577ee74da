"""Compare credit schemes: record rollouts once, score all schemes on them, learn with a table policy under each.

  creditflow bench --preset quick --out runs/bench
  creditflow bench --envs sokoban,sokoban@levels.txt --schemes grpo,graphgpo --out runs/mine

Writes results.json, rollouts-*.jsonl.gz, learning-*.png and report.html.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from creditflow.envs.errors import ConfigError, unknown_name
from creditflow.train.bench.plots import plot_learning
from creditflow.train.bench.report import write_report
from creditflow.train.bench.run import provenance, run_bench
from creditflow.train.bench.suites import PRESETS
from creditflow.train.bench.tables import suite_table, text_table
from creditflow.train.commands.options import positive
from creditflow.wrappers import credit

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    parser.add_argument("--envs", default="sokoban", help="suites, comma-separated: ENV (embedded tasks) or ENV@PATH")
    parser.add_argument("--schemes", default="", help=f"comma-separated (default all): {', '.join(credit.names())}")
    parser.add_argument("--preset", choices=list(PRESETS), default="quick", help="amount of work (default quick)")
    parser.add_argument("--seed", type=int, default=0, help="of all rollouts (default 0)")
    parser.add_argument(
        "--workers", type=positive, default=min(2, os.cpu_count() or 1), help="processes for learning (default 2)"
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="where to write")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    schemes = [name for name in args.schemes.split(",") if name] or list(credit.names())
    for name in schemes:
        if name not in credit.names():
            raise unknown_name("credit scheme", name, credit.names())
    out = Path(args.out)
    suites = [spec for spec in args.envs.split(",") if spec]
    if not suites:
        raise ConfigError("name at least one suite with --envs, such as sokoban or sokoban@levels.txt")
    results = run_bench(suites, schemes, args.preset, out, seed=args.seed, workers=args.workers)
    plots = {}
    for number, result in enumerate(results):
        plots[result.name] = out / f"learning-{number}.png"
        plot_learning(result, plots[result.name])
        print(f"\n{result.name}: {result.tasks} tasks, expert {result.expert_success:.2f}\n")
        print(text_table(suite_table(result)))
    facts = provenance(sys.argv[1:], args.seed) | {"preset": args.preset}
    write_report(results, plots, facts, out / "report.html")
    print(f"\n{out / 'report.html'}")
    return 0
