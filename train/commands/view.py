"""Write a trajectory log as one offline HTML page: rollouts as conversations, the credit of every turn, and why it has it.

  creditflow view rollouts.jsonl.gz --out view.html
  creditflow view rollouts.jsonl --schemes grouptd,grpo --limit 20 --out view.html

The page sorts, filters and searches rollouts, compares schemes and draws each group's state graph. Sokoban's states are drawn as boards,
and pictures that a vision-language policy was shown are read from the folder next to the log. FILE.html#3.2.5 opens group 3, rollout 2,
turn 5.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from creditflow.envs.errors import ConfigError, TrajectoryError
from creditflow.envs.files.atomic import atomic_writer
from creditflow.train.analyses.audit import audit
from creditflow.train.analyses.audit_advice import recommended
from creditflow.train.arguments.logs import add_log_argument, read_log
from creditflow.train.arguments.options import positive
from creditflow.train.arguments.outputs import add_output
from creditflow.train.arguments.plugins import add_code
from creditflow.train.viewer.data import render_page, view_data
from creditflow.wrappers import credit
from creditflow.wrappers.records.picture_folder import PictureFolder, pictures_beside

__all__ = ["add_arguments", "run"]

COMPARED = ("grpo", "gigpo", "graphgpo", "rewardflow", "grouptd")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    add_log_argument(parser)
    add_code(
        parser,
        "--schemes",
        "scheme",
        listed=True,
        help="comma-separated schemes whose credit is shown, the first one first (default: the one that the audit recommends, "
        f"then {', '.join(COMPARED)})",
    )
    parser.add_argument("--limit", type=positive, metavar="N", help="show only the first N groups")
    add_output(parser, "--out", required=True, metavar="FILE.html", help="HTML page to write")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    names = COMPARED if args.schemes is None else [name for name in args.schemes.split(",") if name]
    schemes = {name: credit.make(name) for name in names}
    if not schemes:
        raise ConfigError(f"pass at least one scheme: {', '.join(credit.names())}")
    groups = read_log(args)[: args.limit]
    if not groups:
        raise TrajectoryError(f"{args.input} contains no trajectories")
    first = ""
    if args.schemes is None:
        measured = audit(groups)
        first, options, _ = recommended(measured, measured.state)
        if first:
            schemes[first] = credit.make(first, **options)
    folder = None if args.input == "-" else PictureFolder(pictures_beside(args.input))
    read_frame = None if folder is None else lambda name: folder.read(name).pixels
    page = render_page(view_data(groups, schemes, "creditflow view: " + Path(args.input).name, read_frame, first))
    with atomic_writer(args.out) as stream:
        stream.write(page)
    print(f"{args.out}: {len(groups)} groups, {sum(len(g.turns) for g in groups)} turns", file=sys.stderr)
    return 0
