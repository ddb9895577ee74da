"""Folders and archives of ALFWorld's games."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path


def archive_of(path: Path, members: list[tuple[str, bytes]]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, data in members:
            info = tarfile.TarInfo(f"json_2.1.1/{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def write_games(folder: Path, games: Mapping[str, bytes]) -> Path:
    for name, data in games.items():
        path = folder / "json_2.1.1" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder
