"""Print what is installed, what is missing, and how to get it: versions, extras, engines, data.

  creditflow doctor
  creditflow doctor --json

The exit code is 1 if a package that creditflow always needs is missing, or a package of it or of a complete extra has a version outside its range.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from importlib import metadata

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from creditflow import __version__
    from creditflow.train.doctor.extras import USES, extra_of
    from creditflow.train.doctor.machine import machine
    from creditflow.train.doctor.report import report_text

    lines = metadata.requires("creditflow") or []
    offered = metadata.metadata("creditflow").get_all("Provides-Extra") or []
    core, extras = extra_of(lines, ""), [extra_of(lines, name) for name in USES if name in offered]
    findings = machine()
    wrong = [extra for extra in (core, *extras) if extra.state == "other version"]
    if args.json:
        rows = [
            {
                "name": extra.name, "use": extra.use, "state": extra.state, "found": extra.versions,
                "missing": list(map(str, extra.missing)), "outside": list(map(str, extra.outside)), "remedy": extra.remedy,
            }
            for extra in (core, *extras)
        ]  # fmt: skip
        document = {
            "creditflow": __version__,
            "machine": [asdict(finding) for finding in findings],
            "requirements": rows,
        }
        print(json.dumps(document, indent=1, ensure_ascii=False))
    else:
        print(report_text(__version__, core, extras, findings))
    return int(bool(core.missing or wrong))
