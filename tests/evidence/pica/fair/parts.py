"""Parts of a study as files: each is made once, written whole, and read again by a resumed run."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from creditflow.envs.errors import ConfigError
from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.reading.json_text import read_json
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import write_jsonl

__all__ = ["SIZES", "Parts"]

SIZES: Final = "sizes.json"
NO_PARTS: Final = ("results", "sizes")


class Parts:
    """Files of finished parts, and the processor time that each took.

    Args:
        folder: where they are; made if it is missing.
        sizes: the sizes of the study, as JSON values; they are kept in ``sizes.json``.

    Raises:
        ConfigError: the folder's parts were made with other sizes.
        DataError: ``sizes.json`` cannot be read.
    """

    def __init__(self, folder: Path, sizes: Mapping[str, Any]) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        path, given = folder / SIZES, json.loads(json.dumps(dict(sizes)))
        if not path.exists():
            self.write(path, given)
        known = read_json(path)
        if known != given:
            names = {*known, *given} if isinstance(known, dict) else {}
            changed = sorted(name for name in names if known.get(name) != given.get(name))
            raise ConfigError(
                f"{folder} holds parts of another study ({', '.join(changed)} in {SIZES}): "
                "resume it with its own options, replace it with --force, or name another output"
            )

    def json(self, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The part ``name``, made now if no file has it; it gets the key "cpu_seconds"."""
        path = self.folder / f"{name}.json"
        if not path.exists():
            began = time.process_time()
            found = make()
            self.write(path, found | {"cpu_seconds": round(time.process_time() - began, 1)})
            print(f"{name}: {time.process_time() - began:.0f} cpu-s", flush=True)
        return dict(json.loads(path.read_text(encoding="utf-8")))

    def log(self, name: str, make: Callable[[], list[Group]]) -> Path:
        """The path of a log of episodes, played now if it is not finished."""
        path = self.folder / f"{name}.jsonl"

        def played() -> dict[str, Any]:
            write_jsonl(path, make())
            return {}

        self.json(f"{name}-done", played)
        return path

    def seconds(self) -> dict[str, float]:
        """Processor time by part."""
        found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(self.folder.glob("*.json"))}
        return {name: float(part["cpu_seconds"]) for name, part in found.items() if name not in NO_PARTS}

    @staticmethod
    def write(path: Path, found: dict[str, Any]) -> None:
        """Write JSON values whole or not at all."""
        with atomic_writer(path) as stream:
            stream.write(json.dumps(found, indent=None, allow_nan=False) + "\n")
