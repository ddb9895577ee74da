"""``creditflow data check alfworld``: found games compared with the manifest of the release, the panel ``released-v2``.

What is compared is a game's content (``content.py``), not its bytes: JSON's formatting, line ends, comments and the
published solution do not matter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from creditflow.envs.alfworld.game_files.content import game_task
from creditflow.envs.alfworld.game_files.folder import FOLDER_SPLITS, find_root, list_games
from creditflow.envs.alfworld.game_files.reading import content_from_fields, fields_from_file
from creditflow.envs.errors import DataError, check_name
from creditflow.envs.manifests import DataReport, Item, problem_text, verify
from creditflow.envs.tasks import PanelRow, load_panel

__all__ = ["MANIFEST", "SPLITS", "compare_games", "listed_games", "read_games"]

MANIFEST: Final = "released-v2"
SPLITS: Final = ("train", "valid_seen", "valid_unseen")


def read_games(path: str | Path, splits: Collection[str]) -> Iterator[Item]:
    """Yield the games of a folder, sorted by path.

    Args:
        path: a folder as ``find_root`` accepts it.
        splits: only these.

    Raises:
        ConfigError: no such folder, or one without splits.
        DataError: an unreadable folder, or more games than the limit.
    """
    root = find_root(str(path))
    for split in (name for name in FOLDER_SPLITS if name in splits):
        for file in list_games(root / split) if (root / split).is_dir() else ():
            yield _found(split, file.relative_to(root).as_posix(), file)


def _found(split: str, name: str, file: Path) -> Item:
    try:
        fields = fields_from_file(file)
        content = content_from_fields(fields, name)
    except DataError as error:
        return Item(split, name, problem=problem_text(error))
    if fields.get("solvable") is False:
        return Item(split, name, problem="the file declares the game unsolvable, so loaders skip it")
    return Item(split, name, game_task(content).task_id)


def listed_games(splits: Sequence[str]) -> tuple[PanelRow, ...]:
    """Return the rows of the manifest for these splits.

    Raises:
        ConfigError: an unknown split.
    """
    for split in splits:
        check_name("split", split, SPLITS)
    return tuple(row for row in load_panel("alfworld", MANIFEST).rows if row.split in splits)


def compare_games(path: str, found: Iterable[Item], rows: Sequence[PanelRow]) -> DataReport:
    """Compare games with rows of the manifest.

    Args:
        path: what was read, for the report.
        found: the games; see ``read_games``.
        rows: the manifest's rows; see ``listed_games``.
    """
    listed = {(row.split, row.locator["path"]): row.task_id for row in rows}
    splits = {row.split for row in rows}
    return verify(
        "alfworld",
        MANIFEST,
        path,
        listed,
        found,
        parts=[split for split in SPLITS if split in splits],
        source="`alfworld-download` gets the release",
    )
