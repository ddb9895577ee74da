"""Contents of released games, by the path of their files, and the command line that names their archive."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from creditflow.envs.alfworld.game_files.folder import iter_archive
from creditflow.envs.alfworld.game_files.reading import content_from_fields
from creditflow.envs.reading.json_text import parse_json

__all__ = ["Content", "described_parser", "in_split", "released_contents", "room_of", "scene_of"]

Content = Mapping[str, Any]
# AI2-THOR numbers its scenes by kind of room: kitchens 1 to 30, then 201, 301 and 401 to 430
_ROOMS = ((100, "kitchen"), (300, "living"), (400, "bedroom"), (500, "bathroom"))


def released_contents(archive: str | Path) -> dict[str, Content]:
    """Return path -> content of all games of an archive, sorted by path."""
    found = {
        name: content_from_fields(parse_json(data, where=name), name)
        for name, data in iter_archive(archive)
        if name.endswith("game.tw-pddl")
    }
    return dict(sorted(found.items()))


def in_split(games: Mapping[str, Content], split: str) -> dict[str, Content]:
    """Return the games of one split."""
    return {name: content for name, content in games.items() if name.startswith(f"{split}/")}


def scene_of(name: str) -> int:
    """Return the number of the scene, the last part of the folder's name."""
    return int(name.split("/")[1].rsplit("-", 1)[1])


def room_of(name: str) -> str:
    """Return the kind of room of the scene."""
    return next(room for below, room in _ROOMS if scene_of(name) < below)


def described_parser(description: str | None, source: str, help_text: str) -> argparse.ArgumentParser:
    """A parser with the script's docstring and one path, ``source``."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(source, type=Path, help=help_text)
    return parser
