"""Report which schemes a trajectory log supports: dead groups, aliasing, coverage, and schemes without a signal on it.

  creditflow audit rollouts.jsonl
  creditflow audit --json rollouts.jsonl.gz --out audit.json
  creditflow audit train.jsonl --validation valid.jsonl

The report begins with the recommended scheme and its options, by the table of the README: grouptd where states repeat, blend where they
rarely do, none where groups have one rollout. It ends with the evidence for grouptd.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.reading.plain_data import nan_as_none
from creditflow.train.analyses.audit import audit
from creditflow.train.analyses.audit_advice import (
    EVIDENCE,
    audit_text,
    cautions,
    evidence_text,
    recommendation_text,
    recommended,
    warnings,
)
from creditflow.train.analyses.leakage import overlap
from creditflow.train.arguments.logs import add_log_argument, print_text, read_log
from creditflow.train.arguments.outputs import add_input, add_output

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    add_log_argument(parser)
    parser.add_argument(
        "--key",
        choices=["state", "text"],
        default="state",
        help="keys that the recommended scheme compares states by (default state)",
    )
    add_input(
        parser,
        "--validation",
        default="",
        metavar="LOG|ENV/PANEL:SPLIT",
        help="also report how many of its tasks were trained on in the audited log, by content",
    )
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    add_output(parser, "--out", default="-", metavar="FILE", help="file to write; - (default) is standard output")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    measured = audit(read_log(args))
    if args.validation and args.input == "-":
        raise ConfigError("--validation needs the log as a file, not on standard input")
    leaked = overlap(args.input, args.validation) if args.validation else None
    keys = measured.text if args.key == "text" else measured.state
    if keys is None:
        raise DataError("the log has no text keys; leave out --key text, or record rollouts with texts")
    scheme, options, reason = recommended(measured, keys)
    cautioned = cautions(keys)
    if args.json:
        evidence = EVIDENCE if scheme == "grouptd" else ()
        advice = {
            "scheme": scheme,
            "parameters": options,
            "reason": reason,
            "cautions": cautioned,
            "evidence": evidence,
        }
        data = asdict(measured) | {"warnings": warnings(measured), "recommendation": advice}
        if leaked is not None:
            data["validation"] = leaked._asdict()
        text = json.dumps(nan_as_none(data), indent=1, allow_nan=False)
    else:
        sections = [recommendation_text(scheme, options, reason, cautioned), audit_text(measured)]
        sections += [evidence_text()] if scheme == "grouptd" else []
        text = "\n\n".join([f"{leaked}."] * (leaked is not None) + sections)
    print_text(text, args.out)
    return 0
