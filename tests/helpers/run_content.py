"""The contents of a run's folder, without times and without its own path."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from creditflow.train.settings.reading import load_mapping


def run_content(folder: Path) -> dict[str, Any]:
    """By name: the bytes of every file of a run; metrics without seconds, settings without ``out``, no TensorBoard events."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_dir():
            continue
        if name == "metrics.jsonl":
            records = [json.loads(line) for line in path.read_text().splitlines()]
            found[name] = [
                {k: v for k, v in record.items() if not (k.startswith("speed") or "seconds" in k)} for record in records
            ]
        elif name == "config.yaml":
            found[name] = load_mapping(path) | {"out": ""}
        elif not name.startswith("tensorboard/"):
            found[name] = path.read_bytes()
    return found
