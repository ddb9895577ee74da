"""``creditflow data check boxoban DIR``: a copy of Boxoban compared with the ids of its first levels, which the package lists.

The levels themselves (Guez et al. 2018, github.com/google-deepmind/boxoban-levels) are not in the package. Its manifest has the
task id, a hash of the content, of every level of a few files, in order; ``reset(options={"task_id": …})`` plays one of them
with ``levels=DIR``.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from creditflow.envs.data_report import DataReport, Difference, PartReport
from creditflow.envs.errors import DataError
from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.manifests import embedded_manifest
from creditflow.envs.sokoban.levels.xsb import level_task, read_levels

__all__ = ["MANIFEST", "PUBLISHED", "check_boxoban", "list_levels", "load_ids", "write_ids"]

MANIFEST: Final = "boxoban-v1"
FORMAT: Final = 1
# published levels of each set
PUBLISHED: Final[Mapping[str, int]] = {
    "unfiltered/train": 900_000, "unfiltered/valid": 100_000, "medium/train": 450_000, "hard": 3_332,
}  # fmt: skip
KINDS: Final = ("same", "changed", "missing", "unusable")
MAX_DETAIL: Final = 300  # characters
Ids = Mapping[str, Sequence[str]]


def list_levels(folder: str | Path) -> dict[str, list[str]]:
    """Return the task ids of all level files under a folder: name without suffix -> ids in order.

    Raises:
        LevelError: a malformed file.
    """
    by_file: dict[str, list[str]] = {}
    for level in read_levels(folder):
        by_file.setdefault(level.name.rpartition(":")[0], []).append(level_task(level).task_id)
    return by_file


def write_ids(path: str | Path, ids: Ids) -> None:
    """Write a manifest: ids by file, one per line."""
    lines = [f"{json.dumps(name)}: [\n" + ",\n".join(map(json.dumps, rows)) + "\n]" for name, rows in ids.items()]
    with atomic_writer(path) as out:
        out.write(f'{{"format_version": {FORMAT}, "files": {{\n' + ",\n".join(lines) + "\n}}\n")


def load_ids(name: str = MANIFEST) -> Ids:
    """Load an embedded manifest: name of a level file without suffix -> task ids in order.

    Raises:
        DataError: the file violates the format.
    """
    files: Ids = embedded_manifest("sokoban", name, FORMAT)["files"]
    return files


def check_boxoban(path: str | Path, ids: Ids, parts: Collection[str] = tuple(PUBLISHED)) -> DataReport:
    """Compare a folder of Boxoban with a manifest. Files and levels that the manifest does not list are not looked at.

    Args:
        path: the folder that contains "unfiltered", "medium" and "hard".
        ids: task ids by file.
        parts: only these sets.
    """
    reports, differences = [], []
    for folder in (name for name in PUBLISHED if name in parts):
        counts = dict.fromkeys(KINDS, 0)
        listed = {name: rows for name, rows in ids.items() if name.rpartition("/")[0] == folder}
        for name, expected in listed.items():
            kinds = _compared(Path(path) / f"{name}.txt", expected)
            for number, (kind, detail) in enumerate(kinds):
                counts[kind] += 1
                if kind != "same":
                    differences.append(Difference(folder, kind, f"{name}:{number}", detail))
        total = sum(len(rows) for rows in listed.values())
        complete = counts["same"] == total
        verdict = (
            f"its listed levels can stand for those of {folder}"
            if complete
            else f"cannot stand for {folder}: get the files again from github.com/google-deepmind/boxoban-levels"
        )
        reports.append(
            PartReport(
                folder, PUBLISHED[folder], total, counts, complete, complete and total == PUBLISHED[folder], verdict
            )
        )
    return DataReport("boxoban", MANIFEST, str(path), reports, differences)


def _compared(file: Path, expected: Sequence[str]) -> list[tuple[str, str]]:
    """Return how each listed level of a file was found, with a detail."""
    if not file.is_file():
        return [("missing", f"no file {file.name}")] * len(expected)
    try:
        task_ids = [level_task(level).task_id for level in read_levels(file)]
    except DataError as error:
        return [("unusable", " ".join(str(error).split())[:MAX_DETAIL])] * len(expected)
    kinds = []
    for number, task_id in enumerate(expected):
        if number >= len(task_ids):
            kinds.append(("missing", f"the file has {len(task_ids)} levels"))
        elif task_ids[number] == task_id:
            kinds.append(("same", ""))
        else:
            moved = "; it is at another place of this file" if task_id in task_ids else ""
            kinds.append(("changed", f"another level stands there{moved}"))
    return kinds
