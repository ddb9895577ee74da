"""Vectors of a build that may be interrupted: complete parts beside the index folder, each with the digest of its texts.

A part appears under its name when it is complete. The next build of the same index takes the parts whose texts, encoder and
settings are the same, and encodes the others; the folder goes when the index is complete.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import DataError
from creditflow.envs.files.atomic import atomic_path, atomic_writer, locked, remove_leftovers_below
from creditflow.envs.reading.json_text import read_json
from creditflow.envs.text.vectors.shards import encoded_rows

__all__ = ["PART_ROWS", "VectorParts", "parts_folder", "remove_parts"]

PART_ROWS: Final = 4_096  # passages that an interruption can lose
PLAN: Final = "plan.json"
FORMAT: Final = "wikisearch-vectors/1"


def parts_folder(index: Path) -> Path:
    """The folder of the parts of an index folder."""
    return index.with_name(f"{index.name}.parts")


def remove_parts(index: Path) -> None:
    """Remove the parts of an index that is complete."""
    if (parts_folder(index) / PLAN).is_file():
        shutil.rmtree(parts_folder(index))


class VectorParts:
    """The parts of one build.

    Args:
        folder: holds the parts; made if it is not there.
        plan: what decides the vectors besides the texts: encoder, settings, precision.

    Attributes:
        files: the files of each part by kind, in order.
        encoded: number of parts that this build encoded.

    Raises:
        DataError: the folder holds something else or parts of another plan, or another process is writing it.
    """

    def __init__(self, folder: Path, plan: Mapping[str, Any]) -> None:
        self.folder, self._precision = folder, str(plan["precision"])
        self.files: list[dict[str, Path]] = []
        self.encoded, self._digest, self._open = 0, blake2b(digest_size=16), ExitStack()
        plan_file = {"format": FORMAT, **plan}
        fresh = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        self._open.enter_context(locked(folder))
        try:
            self._check_plan(plan_file, fresh)
        except BaseException:
            self.close()
            raise
        remove_leftovers_below(folder)
        self._digest.update(json.dumps(plan_file, sort_keys=True).encode("ascii"))

    def _check_plan(self, plan: dict[str, Any], fresh: bool) -> None:
        path = self.folder / PLAN
        if fresh or not any(self.folder.iterdir()):
            with atomic_writer(path) as out:
                out.write(json.dumps(plan, sort_keys=True, indent=1) + "\n")
            return
        stored = read_json(path) if path.is_file() else None
        if not isinstance(stored, dict) or stored.get("format") != FORMAT:
            raise DataError(f"{self.folder} already exists and is not an interrupted build; move or delete it")
        if different := sorted(name for name in plan.keys() | stored.keys() if plan.get(name) != stored.get(name)):
            raise DataError(
                f"{self.folder}: an interrupted build left vectors made with another {different[0]}; build with the same "
                "options to continue, or remove the folder to start over"
            )

    def add(self, texts: Sequence[str], encode: Callable[[Sequence[str]], NDArray[np.float32]]) -> None:
        """Take the next part, or encode and write it."""
        number, digest = len(self.files), blake2b(digest_size=16)
        for text in texts:
            digest.update(json.dumps(text).encode("ascii"))
        kinds = ("vectors", "scales") if self._precision == "int8" else ("vectors",)
        files = {kind: self.folder / f"{kind}.{number:06d}.part" for kind in kinds}
        note = self.folder / f"part.{number:06d}.json"
        if not _is_complete(note, files, digest.hexdigest()):
            note.unlink(missing_ok=True)
            arrays = encoded_rows(encode(texts), self._precision)
            for kind, path in files.items():
                with atomic_path(path) as temporary:
                    temporary.write_bytes(arrays[kind])
            with atomic_writer(note) as out:
                out.write(json.dumps({"texts": digest.hexdigest(), **{k: _digest(p) for k, p in files.items()}}) + "\n")
            self.encoded += 1
        self._digest.update(digest.digest())
        self.files.append(files)

    def aside(self, name: str) -> Path:
        """Folder for files derived from all parts; it changes if any part changes."""
        path = self.folder / f"{name}.{self._digest.hexdigest()}"
        path.mkdir(exist_ok=True)
        return path

    def close(self) -> None:
        """Release the folder."""
        self._open.close()


def _is_complete(note: Path, files: Mapping[str, Path], texts: str) -> bool:
    if not note.is_file() or not all(path.is_file() for path in files.values()):
        return False
    expected: Any = read_json(note)
    actual = {"texts": texts, **{kind: _digest(path) for kind, path in files.items()}}
    return bool(expected == actual)


def _digest(path: Path) -> str:
    return blake2b(path.read_bytes(), digest_size=16).hexdigest()
