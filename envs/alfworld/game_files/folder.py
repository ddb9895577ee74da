"""Folders of released games: ``<path>[/json_2.1.1]/<split>/<task>-<things>-<scene>/<trial>/game.tw-pddl``."""

from __future__ import annotations

import os
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path
from typing import Final

from creditflow.envs.alfworld.pddl import TASK_TYPES
from creditflow.envs.errors import ConfigError, DataError, check_name, short_repr
from creditflow.envs.reading.json_text import read_json

__all__ = ["FOLDER_SPLITS", "GAME_FILE", "expanded", "find_root", "game_paths", "list_games", "task_type_of"]

GAME_FILE: Final = "game.tw-pddl"
FOLDER_SPLITS: Final = ("train", "valid_seen", "valid_unseen", "valid_train")
VERSION_FOLDER: Final = "json_2.1.1"
MAX_GAMES: Final = 100_000  # the release has 4,027
_SKIPPED: Final = ("movable", "Sliced")  # task kinds that ALFWorld's text games do not support
_HOW: Final = (
    "expected <data_path>/json_2.1.1/<train|valid_seen|valid_unseen>/<task>/<trial>/game.tw-pddl; get the games with "
    "`pip install alfworld && alfworld-download` (they land in $ALFWORLD_DATA, default ~/.cache/alfworld)"
)


def find_root(data_path: str) -> Path:
    """Return the folder of the splits; ``~`` and ``$ALFWORLD_DATA`` are expanded.

    Raises:
        ConfigError: no such folder, or one without splits.
    """
    if not isinstance(data_path, str) or not data_path:
        raise ConfigError(f"data_path must be the path of a folder, got {short_repr(data_path, 80)}; {_HOW}")
    path = expanded(data_path)
    if not path.is_dir():
        raise ConfigError(f"data_path {str(path)!r} is not a folder; {_HOW}")
    for root in (path / VERSION_FOLDER, path):
        if any((root / split).is_dir() for split in FOLDER_SPLITS):
            return root
    raise ConfigError(f"data_path {str(path)!r} contains none of the folders {', '.join(FOLDER_SPLITS)}; {_HOW}")


def expanded(path: str) -> Path:
    """Return a path with ``~`` and variables such as ``$ALFWORLD_DATA`` expanded."""
    return Path(os.path.expandvars(path)).expanduser()


def game_paths(root: Path, split: str, task_types: Collection[str] = ()) -> tuple[Path, ...]:
    """Return the game files of a split, sorted by path, so that an index names the same game everywhere.

    Args:
        root: as ``find_root`` returns it.
        split: one of ``FOLDER_SPLITS``.
        task_types: only these; () for all.

    Raises:
        ConfigError: no such split, or no game of these types.
        DataError: more than ``MAX_GAMES`` files.
    """
    check_name("split", split, FOLDER_SPLITS)
    folder = root / split
    if not folder.is_dir():
        raise ConfigError(f"{folder} does not exist; {_HOW}")
    paths = _listed(folder, folder.stat().st_mtime_ns)
    if task_types:
        paths = tuple(path for path in paths if task_type_of(path) in task_types)
    if not paths:
        types = f" of the types {', '.join(sorted(task_types))}" if task_types else ""
        raise ConfigError(f"{folder} contains no game{types}; {_HOW}")
    return paths


@lru_cache(maxsize=16)  # shared by all environments of a process
def _listed(folder: Path, _changed: int) -> tuple[Path, ...]:
    return list_games(folder)


def list_games(folder: Path) -> tuple[Path, ...]:
    """Return the game files in the folder of a split, sorted by path.

    Raises:
        DataError: more than ``MAX_GAMES`` files, or a folder that cannot be listed.
    """
    games: list[Path] = []
    try:
        for task in sorted(folder.iterdir()):
            if not task.is_dir() or any(word in task.name for word in _SKIPPED):
                continue
            games.extend(trial / GAME_FILE for trial in sorted(task.iterdir()) if (trial / GAME_FILE).is_file())
            if len(games) > MAX_GAMES:
                raise DataError(f"{folder}: more than {MAX_GAMES} games; is this the right folder? {_HOW}")
    except OSError as error:
        raise DataError(f"{error.filename or folder} cannot be listed: {error.strerror}") from error
    return tuple(games)


def task_type_of(path: Path) -> str:
    """The task type of a game file, from its folder's name, else from ``traj_data.json``; "" if neither has it."""
    name = path.parent.parent.name.split("-", 1)[0]
    if name in TASK_TYPES:
        return name
    metadata = path.with_name("traj_data.json")
    if not metadata.is_file():
        return ""
    try:
        data = read_json(metadata)
    except DataError as error:
        raise DataError(f"{error}; delete it (it is optional) or download it again") from error
    kind = data.get("task_type", "") if isinstance(data, dict) else ""
    return kind if isinstance(kind, str) else ""
