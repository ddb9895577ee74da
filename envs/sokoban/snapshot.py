"""Snapshots of an episode as compact, self-contained JSON text, with a strict reader.

``{"format": "sokoban/1", "level": XSB, "player": cell, "boxes": [cells], "steps": n}`` with cells numbered
``row * width + column``; where an environment limits the moves of an episode, "moves" has those that were made. Snapshots may come from anywhere (logs, other processes), so everything in them is checked.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Final, NamedTuple

from creditflow.envs.errors import DataError, short_repr
from creditflow.envs.reading import checked
from creditflow.envs.sokoban.levels.xsb import MAX_SIDE, Level, parse_level
from creditflow.envs.sokoban.rules import (
    BOX,
    BOX_ON_TARGET,
    FLOOR,
    PLAYER,
    PLAYER_ON_TARGET,
    TARGET,
    WALL,
    to_cell,
    to_position,
)

__all__ = ["Snapshot", "box_positions", "cached_level", "read_snapshot", "write_snapshot"]

_KIND: Final = "Sokoban snapshot"
_FORMAT: Final = "sokoban/1"
_KEYS: Final = {"format", "level", "player", "boxes", "steps"}
_MAX_CHARS: Final = 8 * MAX_SIDE * MAX_SIDE
_MAX_TAIL: Final = 40  # characters of the counts at the end
_BOXES: Final = re.compile(rb"[\x03\x04]")
_EMPTY: Final = bytes([WALL, FLOOR, TARGET, TARGET, FLOOR, FLOOR, TARGET, *range(7, 256)])  # removes boxes and player


class Snapshot(NamedTuple):
    """A state of an episode: level, board, position of the player, steps taken, and moves made where they are limited."""

    level: Level
    board: bytes
    player: int
    steps: int
    moves: int = 0


@lru_cache(maxsize=4096)
def cached_level(xsb: str) -> Level:
    """Return the level of an XSB text; equal texts give the same object.

    Raises:
        LevelError: a malformed level.
    """
    return parse_level(xsb)


@lru_cache(maxsize=4096)
def _quoted(xsb: str) -> str:
    return json.dumps(xsb)


def box_positions(board: bytes) -> list[int]:
    """Return the positions of all boxes, ascending."""
    return [match.start() for match in _BOXES.finditer(board)]


def write_snapshot(level: Level, board: bytes, player: int, steps: int, moves: int = 0) -> str:
    """Return the JSON text of a snapshot; equal states have equal texts."""
    width = level.width
    boxes = ",".join([str(to_cell(position, width)) for position in box_positions(board)])
    counted = f',"moves":{moves}' if moves else ""
    return (
        f'{{"format":"{_FORMAT}","level":{_quoted(level.xsb)},"player":{to_cell(player, width)},'
        f'"boxes":[{boxes}],"steps":{steps}{counted}}}'
    )


def read_snapshot(text: str) -> Snapshot:
    """Return the state in a snapshot.

    Raises:
        DataError: not a snapshot, or an impossible position.
    """
    moves = {"moves"} if isinstance(text, str) and '"moves"' in text[-_MAX_TAIL:] else set()
    data = checked.snapshot_fields(text, kind=_KIND, form=_FORMAT, fields=_KEYS | moves, limit=_MAX_CHARS)
    level = cached_level(checked.text(data["level"], f"{_KIND}: level"))
    cells = level.height * level.width
    player = checked.integer(data["player"], f"{_KIND}: player", high=cells - 1)
    places = [
        checked.integer(box, f"{_KIND}: boxes", high=cells - 1)
        for box in checked.items(data["boxes"], f"{_KIND}: boxes", cells)
    ]
    steps = checked.integer(data["steps"], f"{_KIND}: steps")

    board = bytearray(level.board.translate(_EMPTY))
    positions = {to_position(cell, level.width) for cell in places}
    if not len(positions) == len(places) == len(level.boxes):
        raise DataError(f"Sokoban snapshot: expected {len(level.boxes)} different boxes, got {short_repr(places)}")
    if positions - level.room != set(level.boxes) - level.room:
        raise DataError("Sokoban snapshot: a box is in a wall, or outside the player's room")
    at = to_position(player, level.width)
    if at not in level.room or at in positions:
        raise DataError(f"Sokoban snapshot: the player cannot stand on cell {player}")
    for position in positions:
        board[position] = BOX_ON_TARGET if board[position] == TARGET else BOX
    board[at] = PLAYER_ON_TARGET if board[at] == TARGET else PLAYER
    made = checked.integer(data.get("moves", 0), f"{_KIND}: moves")
    return Snapshot(level, bytes(board), at, steps, made)
