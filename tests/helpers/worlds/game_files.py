"""Folders and archives of ALFWorld's games."""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from creditflow.envs.alfworld.game import Game
from creditflow.envs.alfworld.game_files.export import game_fields

_IN_SPLIT = re.compile(r"(?:train|valid_seen|valid_unseen|valid_train)/.*")


def archive_of(path: Path, members: list[tuple[str, bytes]]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, data in members:
            info = tarfile.TarInfo(f"json_2.1.1/{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def iter_archive(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of an archive's splits, (path that begins with the split, content), in the archive's order."""
    with tarfile.open(path) as archive:
        for member in archive:
            match = _IN_SPLIT.search(member.name)
            data = archive.extractfile(member)
            if match and data is not None:
                yield match[0], data.read()


def write_games(folder: Path, games: Mapping[str, bytes]) -> Path:
    for name, data in games.items():
        path = folder / "json_2.1.1" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def traj_data(game: Game) -> dict[str, Any]:
    """Return the metadata that ALFWorld's loader and its hand-coded expert read next to a game."""
    goal = game.goal
    receptacle = goal.place.removesuffix("type")
    return {
        "task_type": goal.task_type,
        "task_id": f"creditflow_{game.digest}",
        "pddl_params": {
            "object_target": goal.target.removesuffix("type"),
            "parent_target": "" if goal.looks else receptacle,
            "toggle_target": receptacle if goal.looks else "",
            "mrecep_target": "",
            "object_sliced": False,
        },
        "turk_annotations": {"anns": [{"task_desc": game.sentence, "high_descs": []}]},
    }


def export_game(game: Game, folder: str | Path, split: str, walkthrough: Sequence[str]) -> Path:
    """Write a game into ``folder/json_2.1.1/split/…`` in the released layout, so that ALFWorld's loader finds it.

    Args:
        game: the game to export.
        folder: becomes a valid ``$ALFWORLD_DATA``.
        split: "train", "valid_seen" or "valid_unseen".
        walkthrough: a solution, for example from ``ALFWorldOracle().solution``.

    Returns:
        The path of ``game.tw-pddl``.
    """
    goal = game.goal
    words = (goal.task_type, goal.target.removesuffix("type"), "None", goal.place.removesuffix("type"), "0")
    trial = Path(folder) / "json_2.1.1" / split / "-".join(words) / f"trial_{game.digest}"
    trial.mkdir(parents=True, exist_ok=True)
    (trial / "traj_data.json").write_text(json.dumps(traj_data(game)), encoding="ascii")
    (trial / "game.tw-pddl").write_text(json.dumps(game_fields(game, walkthrough)), encoding="ascii")
    return trial / "game.tw-pddl"
