"""Write a trajectory log as one offline HTML page: rollouts as conversations, the credit of every turn, and the reason for it.

  creditflow view rollouts.jsonl.gz --out view.html
  creditflow view rollouts.jsonl --schemes grouptd,grpo --limit 20 --out view.html
  creditflow view rollouts.jsonl --gif rollout.gif --png turn.png

On the page you can sort, filter and search rollouts, compare schemes and see each group's state graph. Sokoban states
are drawn as boards. Images shown to a vision-language policy are read from the folder next to the log. FILE.html#3.2.5
opens group 3, rollout 2, turn 5. --gif draws a rollout and --png one of its turns, with the credit of the first two
schemes.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from creditflow.envs.errors import ConfigError, TrajectoryError, short_repr
from creditflow.envs.files.atomic import atomic_writer
from creditflow.train.analyses.audit import audit
from creditflow.train.analyses.audit_advice import recommended
from creditflow.train.arguments.options import positive
from creditflow.train.arguments.outputs import add_log_argument, add_output, read_log
from creditflow.train.arguments.programs import add_code
from creditflow.train.viewer.animation import most_blamed, write_gif, write_png
from creditflow.train.viewer.data import render_page, view_data
from creditflow.wrappers import credit
from creditflow.wrappers.credit.registry import assigned
from creditflow.wrappers.records.group import Group
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
        help="comma-separated schemes to show, in this order (default: the one that `creditflow audit` recommends, "
        f"then {', '.join(COMPARED)})",
    )
    parser.add_argument("--limit", type=positive, metavar="N", help="show only the first N groups")
    add_output(parser, "--out", metavar="FILE.html", help="HTML page to write")
    add_output(parser, "--gif", metavar="FILE.gif", help="write an animation of a rollout, one frame per turn")
    add_output(parser, "--png", metavar="FILE.png", help="write a picture of a turn")
    parser.add_argument(
        "--turn",
        type=_place,
        metavar="GROUP.ROLLOUT.TURN",
        help="turn for --gif and --png, numbered as on the page (default: the one with the lowest credit)",
    )


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    if not (args.out or args.gif or args.png):
        raise ConfigError("nothing to write: pass --out FILE.html, --gif FILE.gif or --png FILE.png")
    names = COMPARED if args.schemes is None else [name for name in args.schemes.split(",") if name]
    schemes = {name: credit.make(name) for name in names}
    if not schemes:
        raise ConfigError(f"pass at least one scheme: {', '.join(credit.names())}")
    groups = read_log(args)[: args.limit]
    if not groups:
        raise TrajectoryError(f"{args.input} contains no trajectories")
    first = ""
    if args.schemes is None:
        first, _ = recommended(audit(groups))
        if first:
            schemes[first] = credit.make(first)
    folder = None if args.input == "-" else PictureFolder(pictures_beside(args.input))
    read_frame = None if folder is None else lambda name: folder.read(name).pixels
    if args.out:
        page = render_page(view_data(groups, schemes, "creditflow view: " + Path(args.input).name, read_frame, first))
        with atomic_writer(args.out) as stream:
            stream.write(page)
        print(f"{args.out}: {len(groups)} groups, {sum(len(g.turns) for g in groups)} turns", file=sys.stderr)
    if args.gif or args.png:
        ordered = sorted(schemes, key=lambda name: name != first)[:2]  # as on the page
        scored = {name: assigned(schemes[name], groups) for name in ordered}
        drawn = args.turn or most_blamed(scored[ordered[0]])
        _require(drawn, groups)
        g, rollout, turn = drawn
        by_scheme = {name: of_groups[g] for name, of_groups in scored.items()}
        if args.gif:
            write_gif(args.gif, groups[g], rollout, by_scheme, read_frame)
            print(f"{args.gif}: rollout {g + 1}.{rollout + 1}", file=sys.stderr)
        if args.png:
            write_png(args.png, groups[g], rollout, turn, by_scheme, read_frame)
            print(f"{args.png}: turn {g + 1}.{rollout + 1}.{turn + 1}", file=sys.stderr)
    return 0


def _place(text: str) -> tuple[int, int, int]:
    """Group, rollout and turn from 0, of a text such as "3.2.5"."""
    if not re.fullmatch(r"[1-9]\d{0,8}(\.[1-9]\d{0,8}){2}", text):
        raise argparse.ArgumentTypeError(f"GROUP.ROLLOUT.TURN expected, such as 1.1.1, got {short_repr(text)}")
    group, rollout, turn = (int(number) - 1 for number in text.split("."))
    return group, rollout, turn


def _require(place: tuple[int, int, int], groups: Sequence[Group]) -> None:
    """Raise ConfigError if the log has no such turn."""
    group, rollout, turn = place
    members = groups[group].trajectories if group < len(groups) else ()
    if rollout >= len(members) or turn >= len(members[rollout].turns):
        asked = ".".join(str(number + 1) for number in place)
        raise ConfigError(f"the log has no turn {asked}: --turn is GROUP.ROLLOUT.TURN, numbered as on the page")
