"""Score your own log: choose the scheme that suits it, and write an advantage per turn and an HTML page.

  creditflow score mine.jsonl
  creditflow score mine.jsonl --scheme gigpo --out scored

A log has one line per episode: a JSON object with ``messages``, a ``reward`` and a ``task_id``. A log from
``creditflow rollout`` works too. Use ``creditflow data import`` for trainers' logs and for other field names.
The output folder contains log.jsonl, credit.jsonl and page.html.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from creditflow.envs.errors import ConfigError, DataError, printable
from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.reading.limits import MAX_LINE
from creditflow.envs.reading.streams import read_lines
from creditflow.train.adapters.logs.reading import read_log as import_log
from creditflow.train.analyses.audit import audit
from creditflow.train.analyses.audit_advice import recommended
from creditflow.train.arguments.outputs import Output, Target, add_input, add_output, claimed, named
from creditflow.train.arguments.programs import add_code
from creditflow.train.commands.credit import credit_lines
from creditflow.train.text_table import counted, terminal_width, text_table
from creditflow.train.viewer.data import render_page, view_data
from creditflow.wrappers import credit
from creditflow.wrappers.credit.registry import assigned
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import Log, read_log, write_jsonl

__all__ = ["add_arguments", "run"]

FILES = ("log.jsonl", "credit.jsonl", "page.html")
BLAMED = 5  # turns that are printed
FOLDER = Output(kind="folder", owned=named(*FILES))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    add_input(parser, "input", metavar="IN.jsonl", help="your log")
    add_code(parser, "--scheme", "scheme", help="credit scheme (default: the one that `creditflow audit` recommends)")
    add_output(parser, "--out", FOLDER, metavar="FOLDER", help="folder to write (default: IN-scored)")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    folder = Path(args.out or f"{args.input.removesuffix('.gz').removesuffix('.jsonl')}-scored")
    claim = (
        contextlib.nullcontext()
        if args.out
        else claimed([Target(folder, FOLDER, "--out")], [Path(args.input)], force=args.force, resumes=False)
    )
    with claim:
        log = _read(args.input)
        groups = list(log.groups)
        measured = audit(groups)
        name, reason = (args.scheme, "you chose it") if args.scheme else recommended(measured)
        if not name:
            raise DataError(f"{args.input}: {reason}; or name a scheme with --scheme")
        scheme = credit.make(name)
        results = assigned(scheme, groups)
        folder.mkdir(parents=True, exist_ok=True)
        write_jsonl(folder / "log.jsonl", log)
        with atomic_writer(folder / "credit.jsonl", encoding="ascii") as stream:
            of_groups = (credit_lines(group, result, name) for group, result in zip(groups, results, strict=True))
            for line in log.in_order(of_groups):
                stream.write(json.dumps(line, ensure_ascii=True, allow_nan=False, separators=(",", ":")) + "\n")
        schemes = {shown: credit.make(shown) for shown in dict.fromkeys((name, "grpo"))}
        with atomic_writer(folder / "page.html") as stream:
            title, chosen = f"creditflow score: {Path(args.input).name}", "" if args.scheme else name
            stream.write(render_page(view_data(groups, schemes, title, recommended=chosen)))
    rollouts = [member for group in groups for member in group.trajectories]
    print(
        f"{counted(len(rollouts), 'rollout')} of {counted(len(groups), 'group')}, {counted(measured.turns, 'turn')}; "
        f"{np.mean([member.success for member in rollouts]):.0%} succeeded"
    )
    print(f"scheme: {name} ({reason})\n")
    print(_blamed(groups, results))
    print(f"\none advantage per turn: {folder / 'credit.jsonl'}\nall rollouts:           {folder / 'page.html'}")
    return 0


def _read(path: str) -> Log:
    """The log, imported unless it is one of ours."""
    if path == "-":
        raise ConfigError(
            "creditflow score reads a file; import standard input with `creditflow data import messages -`"
        )
    first = next((line for _, line in read_lines(path, MAX_LINE) if not line.isspace()), "")
    if '"format_version"' in first and '"turns"' in first:
        return read_log(path)
    report = import_log("messages", path)
    if report.tally.left_out or report.warnings() or report.tally.notes:
        print(printable(report.to_text()) + "\n", file=sys.stderr)
    return report.log


def _blamed(groups: Sequence[Group], results: Sequence[credit.Credit]) -> str:
    """The turns with the lowest advantages, as a table."""
    rows = [
        (float(value), member.trajectory_id, t + 1, member.turns[t].action)
        for group, result in zip(groups, results, strict=True)
        for member, values in zip(group.trajectories, result.advantages, strict=True)
        for t, value in enumerate(values)
        if value < 0.0
    ]
    if not rows:
        return "no turn has a negative advantage"
    lowest = sorted(rows, key=lambda row: row[0])[:BLAMED]
    table = [
        [f"{value:+.2f}", _short(rollout, 24), str(turn), _short(action, 36)] for value, rollout, turn, action in lowest
    ]
    return text_table([["advantage", "rollout", "turn", "action"], *table], width=terminal_width())


def _short(text: str, width: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= width else f"{text[: width - 3]}..."
