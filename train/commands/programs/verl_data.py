"""Write tasks as a data set for verl: a Parquet file whose rows contain the tasks' content, so that any node can play them.

  python -m creditflow.train.commands.programs.verl_data --env sokoban --panel standard-v1:train --out train.parquet

The prompt column contains the task id and is not used, because the agent loop builds the prompts. ``--agent-loop`` sets the
loop that plays these rows. Files of several environments can be given to verl together.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from creditflow.train.arguments.options import seed
from creditflow.train.arguments.outputs import add_output
from creditflow.train.arguments.plugins import add_code
from creditflow.train.arguments.programs import run_program

__all__ = ["add_arguments", "main", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the program's arguments."""
    add_code(
        parser, "--env", "environment", required=True, metavar="NAME",
        help="sokoban, alfworld, webshop, wikisearch, or your own: path/to/file.py:NAME",
    )  # fmt: skip
    parser.add_argument("--panel", default="", metavar="NAME:SPLIT", help="an embedded panel")
    parser.add_argument("--draw", type=int, default=0, metavar="N", help="number of tasks to sample from a generator")
    parser.add_argument("--seed", type=seed, default=0, help="random seed of the sampled tasks")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="an option of the environment")
    parser.add_argument("--agent-loop", default="creditflow", metavar="NAME", help="agent loop that plays the rows")
    add_output(parser, "--out", required=True, metavar="FILE.parquet", help="file to write")


def run(args: argparse.Namespace) -> int:
    """Write the file."""
    from creditflow.train.engines.verl import rows_of, write_parquet
    from creditflow.train.rollout.tasks import training_tasks
    from creditflow.train.settings.overrides import apply_overrides
    from creditflow.train.settings.schema import EnvConfig, TaskConfig

    env = EnvConfig(name=args.env, options=apply_overrides({}, args.set))
    tasks = training_tasks(env, TaskConfig(panel=args.panel, count=args.draw), seed=args.seed)
    write_parquet(Path(args.out), rows_of(args.env, tasks, agent_loop=args.agent_loop))
    print(f"{len(tasks)} tasks of {args.env} to {args.out}")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    return run_program("creditflow.train.commands.programs.verl_data", arguments)


if __name__ == "__main__":
    sys.exit(main())
