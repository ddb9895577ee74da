"""Write tasks as a data set for verl: a Parquet file whose rows contain the tasks' content, so that any node can play them.

  python -m creditflow.train.adapters.verl.data --env sokoban --panel standard-v1:train --out train.parquet

The prompt column holds the task id and is not used: the agent loop builds the prompts. ``--agent-loop`` names the
loop that plays these rows; files of several environments can be given to verl together.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from creditflow.envs.errors import MissingExtraError
from creditflow.envs.files.atomic import atomic_path
from creditflow.envs.tasks import Task
from creditflow.train.commands.arguments.options import seed
from creditflow.train.commands.arguments.outputs import add_output
from creditflow.train.commands.arguments.plugins import add_code
from creditflow.train.commands.arguments.programs import run_program

__all__ = ["add_arguments", "main", "rows_of", "run", "write_parquet"]


def rows_of(env: str, tasks: Sequence[Task], *, agent_loop: str = "creditflow") -> list[dict[str, Any]]:
    """One row per task, with the columns that verl's data set reads.

    >>> [row] = rows_of("sokoban", [Task("sokoban1:ab", "sokoban1:ab", {"level": "#@$.#"})])
    >>> row["data_source"], row["extra_info"]["task"]
    ('creditflow/sokoban', '{"level": "#@$.#"}')
    """
    return [
        {
            "data_source": f"creditflow/{env}",
            "agent_name": agent_loop,
            "prompt": [{"role": "user", "content": task.task_id}],
            "reward_model": {"style": "rule", "ground_truth": ""},
            "extra_info": {"index": i, "task_id": task.task_id, "task": json.dumps(dict(task.content))},
        }
        for i, task in enumerate(tasks)
    ]


def write_parquet(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows; the file appears only when it is complete.

    Raises:
        MissingExtraError: pyarrow, a dependency of verl, is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError("pyarrow", "verl") from error
    with atomic_path(path) as partial:
        pq.write_table(pa.Table.from_pylist(list(rows)), partial)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the program's arguments."""
    add_code(
        parser, "--env", "environment", required=True, metavar="NAME",
        help="sokoban, alfworld, webshop, wikisearch, or yours: path/to/file.py:NAME",
    )  # fmt: skip
    parser.add_argument("--panel", default="", metavar="NAME:SPLIT", help="an embedded panel")
    parser.add_argument("--draw", type=int, default=0, metavar="N", help="number of tasks to sample from a generator")
    parser.add_argument("--seed", type=seed, default=0, help="random seed of the sampled tasks")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="an option of the environment")
    parser.add_argument("--agent-loop", default="creditflow", metavar="NAME", help="agent loop that plays the rows")
    add_output(parser, "--out", required=True, metavar="FILE.parquet", help="file to write")


def run(args: argparse.Namespace) -> int:
    """Write the file."""
    from creditflow.train.run.tasks import training_tasks
    from creditflow.train.settings.overrides import apply_overrides
    from creditflow.train.settings.schema import EnvConfig, TaskConfig

    env = EnvConfig(name=args.env, options=apply_overrides({}, args.set))
    tasks = training_tasks(env, TaskConfig(panel=args.panel, count=args.draw), seed=args.seed)
    write_parquet(Path(args.out), rows_of(args.env, tasks, agent_loop=args.agent_loop))
    print(f"{len(tasks)} tasks of {args.env} to {args.out}")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit code."""
    return run_program("creditflow.train.adapters.verl.data", arguments)


if __name__ == "__main__":
    sys.exit(main())
