"""Show which turn of a failed shopping episode each scheme blames, and write a page with all rollouts of its group.

  creditflow demo
  creditflow demo --out demo.html

The package contains the eight rollouts and the effect of each turn, measured by replaying the task from before and after it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.files.atomic import atomic_writer
from creditflow.train.arguments.outputs import add_output
from creditflow.train.text_table import terminal_width, text_table
from creditflow.train.viewer.data import render_page, view_data
from creditflow.wrappers import credit
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import read_groups

__all__ = ["SCHEMES", "SHOWN", "add_arguments", "example_group", "replayed_changes", "run"]

SCHEMES = ("grpo", "gigpo", "graphgpo", "grouptd")
SHOWN = 1  # the rollout that bought before it had chosen the scent
EXAMPLES = files("creditflow.assets") / "examples"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    add_output(parser, "--out", metavar="FILE.html", help="page to write (default: in a new temporary folder)")


def example_group() -> Group:
    """Eight rollouts of one WebShop task by an expert that sometimes acts at random."""
    with as_file(EXAMPLES / "webshop.jsonl.gz") as path:
        return next(iter(read_groups(path)))


def replayed_changes() -> NDArray[np.float64]:
    """What each turn of the shown rollout changed in the expected final score, float64 (T,), measured by replay."""
    measured = json.loads((EXAMPLES / "webshop_replay.json").read_text(encoding="ascii"))
    return np.diff(np.array(measured["values"], np.float64))


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    group = example_group()
    schemes = {name: credit.make(name) for name in SCHEMES}
    shown = group.trajectories[SHOWN]
    columns = {name: scheme.assign(group).advantages[SHOWN] for name, scheme in schemes.items()}
    columns["replay"] = replayed_changes()
    worst = int(np.argmin(columns["replay"]))

    rows = [["turn", "action", *columns, ""]]
    for t, turn in enumerate(shown.turns):
        action = turn.action if len(turn.action) <= 25 else f"{turn.action[:22]}..."
        numbers = [f"{values[t]:+.2f}" for values in columns.values()]
        rows.append([str(t + 1), action, *numbers, "<- mistake" if t == worst else ""])

    target = Path(args.out) if args.out else Path(tempfile.mkdtemp(prefix="creditflow-")) / "demo.html"
    with atomic_writer(target) as stream:
        title = "creditflow demo: one WebShop task, eight rollouts"
        stream.write(render_page(view_data([group], schemes, title, recommended="grouptd")))

    mean = np.mean([member.score for member in group.trajectories])
    print("Task: buy a lip balm, scent almond, size 30 ml.")
    print("The agent bought it before it had chosen the scent.")
    print(
        f"Its score, {shown.score:.2f}, is above the mean of its eight rollouts, {mean:.2f}: GRPO praises every turn.\n"
    )
    print(text_table(rows, width=terminal_width()))
    print("\nreplay: change of the expected score, measured by playing on 2,000 times from before and after the turn")
    print(f"All eight rollouts: {target}")
    return 0
