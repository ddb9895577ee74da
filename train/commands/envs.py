"""List the environments, the option for your own files, the built-in task lists (panels), and the number of tasks in each split."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from typing import Any

from creditflow.envs.registration import ENVIRONMENTS, REGISTRY
from creditflow.envs.tasks import load_panel, panel_names
from creditflow.train.arguments.outputs import add_json
from creditflow.train.rollout.plugins import plugins_text

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    add_json(parser, "print the list as JSON")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    rows: list[dict[str, Any]] = []
    for name, entry in ENVIRONMENTS.items():
        panels = {}
        for panel in panel_names(name):
            panels[panel] = dict(Counter(row.split for row in load_panel(name, panel).rows))
        rows.append({"name": name, "id": entry.gym_id, "files": entry.files, "panels": panels})
    plugins = REGISTRY.rows()
    if args.json:
        print(json.dumps(rows + plugins, indent=2))
        return 0
    for row in rows:
        print(f"{row['name']:12} {row['id']}" + (f"   your own: --env-set {row['files']}=PATH" if row["files"] else ""))
        for panel, splits in row["panels"].items():
            counts = ", ".join(f"{split} {count}" for split, count in splits.items())
            print(f"{'':12} --panel {panel}:SPLIT   {counts}")
    if plugins:
        print(plugins_text(plugins))
    return 0
