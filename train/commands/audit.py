"""Report which schemes a trajectory log supports: dead groups, aliasing, coverage, and schemes without a signal on it.

creditflow audit rollouts.jsonl
creditflow audit --json rollouts.jsonl.gz --out audit.json
creditflow audit --batch 16 rollouts.jsonl

It begins with a recommended scheme, by rules that were fitted to runs of the benchmark and evaluated on suites left out, and ends with
the evidence for it: regret against always taking one scheme, and which measured settings have the most similar logs.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from creditflow.envs.reading.plain_data import nan_as_none
from creditflow.train.analyses.audit import audit
from creditflow.train.analyses.audit_advice import supported_variant, warnings
from creditflow.train.analyses.audit_text import audit_text
from creditflow.train.choice.advice import evidence_text, recommend, recommendation_text
from creditflow.train.choice.features import log_features
from creditflow.train.commands.arguments.logs import add_log_argument, print_text, read_log
from creditflow.train.commands.arguments.options import positive
from creditflow.train.commands.arguments.outputs import add_output

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    add_log_argument(parser)
    parser.add_argument(
        "--batch",
        type=positive,
        default=0,
        metavar="N",
        help="groups in an update of the trainer (default: all of the log)",
    )
    parser.add_argument(
        "--key",
        choices=["state", "text"],
        default="state",
        help="keys that the recommended scheme compares states by (default state)",
    )
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    add_output(parser, "--out", default="-", metavar="FILE", help="file to write; - (default) is standard output")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    groups = read_log(args)
    found = audit(groups)
    advised = recommend(log_features(groups, key=args.key, batch=args.batch))
    variant, reason = supported_variant(found)
    advice = {"grouptd": variant, "grouptd_reason": reason, "warnings": warnings(found)}
    if args.json:
        data = asdict(found) | advice | {"recommendation": advised.to_json()}
        text = json.dumps(nan_as_none(data), indent=1, allow_nan=False)
    else:
        parts = (recommendation_text(advised, variant, reason), audit_text(found), evidence_text(advised))
        text = "\n\n".join(parts)
    print_text(text, args.out)
    return 0
