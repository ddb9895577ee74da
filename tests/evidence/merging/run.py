"""Writes ``tests/evidence/merging/results.json``: merges on the noisy shop and on search rollouts, compared with the true states.

    PYTHONPATH=src python tests/evidence/merging/run.py

Every part is two commands, recorded beside its rows: ``creditflow rollout`` with the embedded tasks, then
``creditflow merge --json`` on that log. About ten minutes, most of them in the released greedy clusters.
"""

from __future__ import annotations

import json
import platform
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from creditflow.envs.files.atomic import atomic_writer
from creditflow.train.cli import main as creditflow

TARGET = Path(__file__).with_name("results.json")
SHOP = "rollout --env webshop --env-set preset=graphgpo --env-set ads={ads} --agent noisy:0.4 --panel standard-v1:train --limit 16 --group-size 8 --seed 0 --out log.jsonl"
SEARCH = "rollout --env wikisearch --env-set dialect={dialect} --env-set max_steps=4 --agent noisy:0.4 --panel standard-v1:train --limit 60 --group-size 5 --seed 0 --out log.jsonl"
MERGE = "merge {text} --by state --by none --by released@0.95 --by difflib@0.95 --by hash@0.7 --by hash@0.8 --by hash@0.9 --by hash@0.95 --json log.jsonl --out table.json"
SEARCH_MERGE = MERGE.replace("0.95 --by difflib@0.95", "0.9 --by difflib@0.9")
PARTS = {
    "webshop, no advertisements": (SHOP.format(ads=0), MERGE.format(text="--text key")),
    "webshop, 1 advertisement a page": (SHOP.format(ads=1), MERGE.format(text="--text key")),
    "webshop, 2 advertisements a page": (SHOP.format(ads=2), MERGE.format(text="--text key")),
    "webshop, 4 advertisements a page": (SHOP.format(ads=4), MERGE.format(text="--text key")),
    "wikisearch, 4 turns": (SEARCH.format(dialect="search_r1"), SEARCH_MERGE.format(text="--text observation")),
    "wikisearch, 4 turns, query shown": (
        SEARCH.format(dialect="plain"),
        SEARCH_MERGE.format(text="--text observation"),
    ),
}


def main() -> None:
    """Record the rollouts, merge their states, and write the table."""
    parts: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, commands in PARTS.items():
            print(name, file=sys.stderr, flush=True)
            for command in commands:
                words = [f"{folder}/{w}" if w in ("log.jsonl", "table.json") else w for w in shlex.split(command)]
                if creditflow(words):
                    raise SystemExit(f"failed: creditflow {command}")
            log = Path(folder, "log.jsonl").read_text(encoding="ascii").splitlines()
            lengths = [len(json.loads(line)["turns"]) for line in log]
            parts.append(
                {
                    "part": name,
                    "commands": [f"creditflow {command}" for command in commands],
                    "rollouts": len(log),
                    "turns": sum(lengths),
                    "rows": json.loads(Path(folder, "table.json").read_text(encoding="ascii")),
                }
            )
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    evidence = {
        "job": "merging",
        "command": "python tests/evidence/merging/run.py",
        "commit": commit,
        "versions": {"python": platform.python_version(), "numpy": np.__version__},
        "parts": parts,
    }
    with atomic_writer(TARGET) as stream:
        json.dump(evidence, stream, indent=1, allow_nan=False)
        stream.write("\n")


if __name__ == "__main__":
    main()
