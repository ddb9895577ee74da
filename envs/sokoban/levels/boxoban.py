"""``creditflow data check boxoban DIR``: a copy of Boxoban compared with the ids of its first levels, which the package lists.

The levels themselves (Guez et al. 2018, github.com/google-deepmind/boxoban-levels) are not in the package. Its manifest has the
task id, a hash of the content, of every level of a few files, in order; ``reset(options={"task_id": …})`` plays one of them
with ``levels=DIR``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from creditflow.envs.errors import DataError
from creditflow.envs.manifests import DataReport, Item, embedded_manifest, problem_text, verify
from creditflow.envs.sokoban.levels.xsb import level_task, read_levels

__all__ = ["MANIFEST", "SETS", "check_boxoban", "load_ids"]

MANIFEST: Final = "boxoban-v1"
FORMAT: Final = 1
SETS: Final = ("unfiltered/train", "unfiltered/valid", "medium/train", "hard")
Ids = Mapping[str, Sequence[str]]


def load_ids(name: str = MANIFEST) -> Ids:
    """Load an embedded manifest: name of a level file without suffix -> task ids in order.

    Raises:
        DataError: the file violates the format.
    """
    files: Ids = embedded_manifest("sokoban", name, FORMAT)["files"]
    return files


def check_boxoban(path: str | Path, ids: Ids, parts: Collection[str] = SETS) -> DataReport:
    """Compare a folder of Boxoban with a manifest. Files and levels that the manifest does not list are not looked at.

    Args:
        path: the folder that contains "unfiltered", "medium" and "hard".
        ids: task ids by file.
        parts: only these sets.
    """
    chosen = {name: rows for name, rows in ids.items() if name.rpartition("/")[0] in parts}
    listed = {
        (name.rpartition("/")[0], f"{name}:{number}"): task_id
        for name, rows in chosen.items()
        for number, task_id in enumerate(rows)
    }
    return verify(
        "boxoban", MANIFEST, str(path), listed, _items(Path(path), chosen),
        parts=[folder for folder in SETS if folder in parts],
        source="get the files again from github.com/google-deepmind/boxoban-levels",
    )  # fmt: skip


def _items(folder: Path, ids: Ids) -> Iterator[Item]:
    for name, expected in ids.items():
        part, file = name.rpartition("/")[0], folder / f"{name}.txt"
        if not file.is_file():
            continue
        try:
            task_ids = [level_task(level).task_id for level in read_levels(file)][: len(expected)]
        except DataError as error:
            yield from (Item(part, f"{name}:{i}", problem=problem_text(error)) for i in range(len(expected)))
            continue
        yield from (Item(part, f"{name}:{number}", task_id) for number, task_id in enumerate(task_ids))
