"""Run the papers' own analyses on a trajectory log, as text, JSON and plots.

  creditflow analyse rollouts.jsonl                          all analyses defined on the log, and why others are not
  creditflow analyse --only graphgpo,rewardflow --key text rollouts.jsonl --plot plots
  creditflow analyse --group-by task --json rollouts.jsonl.gz

gdcr        distance to the answer by turn, in correct and incorrect rollouts; its correlation with correctness
uncited     GDCR: entities that were retrieved and never cited in a later thought, or used at all, by outcome and distance
egrpo       entity match rates of correct and incorrect rollouts, and a sign test over questions
rewardflow  size of the state graphs; unique among visited states by number of rollouts
graphgpo    fractions of turns: on a shortest path, detours, regressions, invalid actions
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from creditflow.envs.errors import ConfigError, DataError, unknown_name_error
from creditflow.train.analyses.finding import Finding, NotDefined, json_values
from creditflow.train.arguments.logs import add_log_argument, print_text, read_log
from creditflow.train.arguments.outputs import Output, add_output
from creditflow.train.text_table import counted
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.log_size import LogSize

__all__ = ["ANALYSES", "add_arguments", "run"]

Found = Mapping[str, tuple[ModuleType, Finding]]  # the module and the finding of each analysis

ANALYSES = ("gdcr", "uncited", "egrpo", "rewardflow", "graphgpo")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    add_log_argument(parser)
    parser.add_argument(
        "--only", default="", metavar="NAMES", help=f"comma-separated analyses (default all): {', '.join(ANALYSES)}"
    )
    parser.add_argument(
        "--key", choices=["state", "text"], default="state", help="key by which two states are equal (default state)"
    )
    parser.add_argument(
        "--match", choices=["paper", "normalized", "exact_substring"], default="paper",
        help="when a text mentions an entity; paper: egrpo by the exact phrase, gdcr and uncited by normalised words",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    add_output(
        parser, "--plot", Output(kind="folder"), metavar="DIR",
        help="folder for a PNG plot of each analysis",
    )  # fmt: skip
    add_output(parser, "--out", default="-", metavar="FILE", help="file to write; - (default) is standard output")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    names = [name for name in args.only.split(",") if name] or list(ANALYSES)
    for name in names:
        if name not in ANALYSES:
            raise unknown_name_error("analysis", name, ANALYSES)
    if len(set(names)) != len(names):
        raise ConfigError(f"an analysis is named twice: {args.only}")
    groups = read_log(args)
    options: dict[str, Any] = {"key": args.key} | ({} if args.match == "paper" else {"match": args.match})
    findings, reasons = _findings(names, groups, options)
    if args.plot:
        for name, (module, finding) in findings.items():
            print(f"{name}: {module.draw(finding, Path(args.plot))}", file=sys.stderr)
    text = _json(findings, reasons, groups) if args.json else _text(findings, reasons, groups)
    print_text(text, args.out)
    if not findings:
        raise DataError(f"{args.input}: none of {', '.join(names)} is defined on this log")
    return 0


def _findings(
    names: Sequence[str], groups: Sequence[Group], options: Mapping[str, Any]
) -> tuple[Found, dict[str, str]]:
    findings, reasons = {}, {}
    for name in names:
        module = import_module(f"creditflow.train.analyses.{name}")
        try:
            findings[name] = module, module.analyse(groups, **options)
        except NotDefined as reason:
            reasons[name] = str(reason)
    return findings, reasons


def _text(found: Found, reasons: Mapping[str, str], groups: Sequence[Group]) -> str:
    size = LogSize.of(groups)
    paragraphs = [
        f"{counted(size.groups, 'group')}, {counted(size.trajectories, 'rollout')}, {counted(size.turns, 'turn')}, success {size.success:.3f}"
    ]
    paragraphs += [str(finding) for _, finding in found.values()]
    paragraphs += [f"{name}: not applicable to this log: {reason}" for name, reason in reasons.items()]
    return "\n\n".join(paragraphs)


def _json(found: Found, reasons: Mapping[str, str], groups: Sequence[Group]) -> str:
    size = LogSize.of(groups)
    numbers = {
        "log": {"groups": size.groups, "rollouts": size.trajectories, "turns": size.turns, "success": size.success},
        "analyses": {name: {"source": f.source, **f.numbers, "notes": list(f.notes)} for name, (_, f) in found.items()},
        "not_defined": dict(reasons),
    }
    return json.dumps(json_values(numbers), indent=1, allow_nan=False)
