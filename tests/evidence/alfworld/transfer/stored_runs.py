"""Runs of a transfer experiment, each stored once: an interrupted script goes on where it stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from evidence.alfworld.released import Content, described_parser, released_contents

from creditflow.envs.files.atomic import atomic_writer

__all__ = ["store_runs"]

Run = Callable[[Mapping[str, Content]], Mapping[str, Any]]


def store_runs(description: str | None, runs: Callable[[list[int]], Iterable[tuple[str, Run | partial[Any]]]]) -> None:
    """Play the runs of the seeds given on the command line, and write each to ``OUT/NAME.json`` unless it is there.

    Args:
        description: the script's docstring.
        runs: returns name and function of games of each run, for a list of seeds.
    """
    parser = described_parser(description, "archive", "archive of the released games")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--out", type=Path, default=Path("runs/transfer"), help="folder of the results")
    args = parser.parse_args()
    games = released_contents(args.archive)
    args.out.mkdir(parents=True, exist_ok=True)
    for name, run in runs(args.seeds):
        path = args.out / f"{name}.json"
        if not path.exists():
            with atomic_writer(path) as file:
                json.dump(run(games), file)
            print(path, flush=True)
