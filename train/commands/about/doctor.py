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
    found = machine()
    wrong = [one for one in (core, *extras) if one.state == "other version"]
    if args.json:
        rows = [
            {
                "name": one.name, "use": one.use, "state": one.state, "found": one.found,
                "missing": list(map(str, one.missing)), "outside": list(map(str, one.outside)), "remedy": one.remedy,
            }
            for one in (core, *extras)
        ]  # fmt: skip
        document = {"creditflow": __version__, "machine": [asdict(one) for one in found], "requirements": rows}
        print(json.dumps(document, indent=1, ensure_ascii=False))
    else:
        print(report_text(__version__, core, extras, found))
    return int(bool(core.missing or wrong))
