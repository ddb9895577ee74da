"""Archives of released games (``.tar``, ``.tar.gz``, ``.tar.xz``): read or unpacked as untrusted input.

Only regular files at the paths of game files are read, within limits of number and size; links, devices, absolute paths
and ``..`` are ignored.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from creditflow.envs.errors import DataError
from creditflow.envs.files.atomic import atomic_path
from creditflow.envs.reading.archives import iter_members

__all__ = ["iter_archive", "unpack_archive"]

_GAME_FILE: Final = re.compile(
    r"(?:\./)?(?:[\w.-]+/)*?((?:train|valid_seen|valid_unseen|valid_train)/[\w.-]+/[\w.-]+/(?:game\.tw-pddl|traj_data\.json))"
)


def iter_archive(path: str | Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of all games, (path that begins with the split, content), in the archive's order.

    Raises:
        DataError: not a readable tar archive, or beyond a limit.
    """
    return iter_members(path, _game_path)


def _game_path(member: tarfile.TarInfo) -> str | None:
    """Return the path, from the split on, of a member that is a game's file, else None."""
    if not member.isreg() or member.name.startswith("/") or ".." in Path(member.name).parts:
        return None
    match = _GAME_FILE.fullmatch(member.name)
    return match.group(1) if match else None


def unpack_archive(path: str | Path, folder: str | Path) -> int:
    """Write the games of an archive into ``folder/json_2.1.1``, which then serves as ``data_path``.

    Returns:
        The number of game files written.

    Raises:
        DataError: see ``iter_archive``; or an archive without a game.
    """
    games = 0
    for name, content in iter_archive(path):
        target = Path(folder) / "json_2.1.1" / name
        with atomic_path(target) as temporary:
            temporary.write_bytes(content)
        games += target.name == "game.tw-pddl"
    if not games:
        raise DataError(
            f"{path}: contains no <split>/<task>/<trial>/game.tw-pddl with split train, valid_seen, valid_unseen"
        )
    return games
