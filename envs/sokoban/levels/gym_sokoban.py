"""Levels distributed as those of gym-sokoban 0.0.6, from seeds, for results that are comparable with its users' papers.

Its procedure, in own words: a random walk carves a room; a player and targets are placed on random cells; a depth-first search
plays backwards from the solved position, pulling boxes or walking, and keeps the position of the highest score, which is
the number of pulls on the way times the sum of the boxes' distances from their targets (zero unless every target is
visible: no box and no player on it). Rooms whose best score is zero are rejected.

Two traits of the original belong to the distribution and are kept: the search never visits a position twice, so that what
lies beyond one that was first reached near the depth limit stays unexplored; and a box that was pulled back to where it
began counts as another position than one that was never pulled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from creditflow.envs.errors import ConfigError
from creditflow.envs.sokoban.levels.generator import MAX_ROOMS, GeneratorOptions, level_of, walk_cells
from creditflow.envs.sokoban.levels.xsb import Level
from creditflow.envs.sokoban.oracle import LevelOracle
from creditflow.envs.sokoban.rules import to_position
from creditflow.envs.tasks import sample_index

__all__ = ["GymSokobanOptions", "Room", "Start", "carve_room", "generate_gym_sokoban_level", "reverse_start"]

MAX_DEPTH: Final = 299  # positions on a path of the search
MAX_POSITIONS: Final = 300_000
STEPS: Final = ((1, 0), (0, 1), (-1, 0), (0, -1))
# Cells that the walk clears around its position, as (row, column) offsets.
STAMPS: Final = (
    ((0, -1), (0, 0), (0, 1)),
    ((-1, 0), (0, 0), (1, 0)),
    ((0, -1), (0, 0), (1, 0)),
    ((0, -1), (0, 0), (1, -1), (1, 0)),
    ((0, 0), (0, 1), (1, 0)),
)


@dataclass(frozen=True, slots=True)
class GymSokobanOptions(GeneratorOptions):
    """Options of levels of gym-sokoban's distribution.

    Attributes:
        height: rows, including the outer walls.
        width: columns, including the outer walls.
        boxes: number of boxes.
        min_length: least length of a shortest solution, in moves; shorter levels are rejected, as VAGEN does. Default: none are.
        max_length: greatest length of a shortest solution.

    Raises:
        ConfigError: a value out of range.
    """

    min_length: int = 1
    max_length: int = 30_000

    def level(self, rng: np.random.Generator) -> Level:
        """Generate a level with raw integers of ``rng``."""
        return generate_gym_sokoban_level(rng, self)


class Room(NamedTuple):
    """A carved room with what stands in it; cells are ``row * width + column``.

    Attributes:
        width: number of columns.
        floor: cells without a wall, ascending.
        player: cell of the player.
        targets: cells of the targets, in the order of placing.
    """

    width: int
    floor: tuple[int, ...]
    player: int
    targets: tuple[int, ...]


class Start(NamedTuple):
    """The best position that the search found.

    Attributes:
        score: pulls times summed distances; 0 if there is no start.
        player: cell of the player.
        boxes: cells of the boxes; box i began on target i.
    """

    score: int
    player: int
    boxes: tuple[int, ...]


def generate_gym_sokoban_level(rng: np.random.Generator, options: GymSokobanOptions) -> Level:
    """Generate a level of gym-sokoban's distribution, with a shortest solution of the requested length.

    Args:
        rng: source of raw integers.
        options: options of the level.

    Raises:
        ConfigError: no such level was found in 1,000 rooms.
        OracleLimitError: the exact table of such a room would exceed the memory limit.
    """
    every_length = (options.min_length, options.max_length) == (1, 30_000)
    for _ in range(MAX_ROOMS):
        room = carve_room(rng, options.height, options.width, options.boxes)
        if room is None:
            continue
        start = reverse_start(room)
        if start.score == 0:
            continue
        floor, targets, boxes = (
            [to_position(cell, room.width) for cell in cells] for cells in (room.floor, room.targets, start.boxes)
        )
        level = level_of(options, floor, targets, boxes, to_position(start.player, room.width))
        if every_length or options.min_length <= _length(level) <= options.max_length:
            return level
    raise ConfigError(
        f"found no level with {options} in {MAX_ROOMS} rooms; widen min_length and max_length or enlarge the room"
    )


def _length(level: Level) -> int:
    return LevelOracle(level).moves_left(level.player, level.boxes)


def carve_room(rng: np.random.Generator, height: int, width: int, boxes: int) -> Room | None:
    """Carve a room, and place the player and targets in it; None if it is too small for them."""
    start = 1 + sample_index(rng, height - 1), 1 + sample_index(rng, width - 1)
    cells = walk_cells(rng, (height, width), start, int(1.7 * (height + width)), STEPS, STAMPS)
    if len(cells) <= boxes + 1:
        return None
    free = list(cells)
    player = free.pop(sample_index(rng, len(free)))
    targets = tuple([free.pop(sample_index(rng, len(free))) for _ in range(boxes)])
    return Room(width, tuple(cells), player, targets)


def reverse_start(room: Room) -> Start:
    """Return the best start of a room: the search of the original, position by position in its order.

    A position is the player's cell, the set of boxes that were never pulled, and the set of those that were, as bits.
    """
    width, floor = room.width, frozenset(room.floor)
    offsets = (-width, width, -1, 1)  # up, down, left, right; first with a pull, then without
    goals = _bits(room.targets)
    targets = sorted(room.targets)
    best = Start(0, room.player, tuple(targets))
    explored = {(room.player, goals, 0)}
    # player, never pulled, pulled, place of each box, pulls, next of the eight actions
    path: list[list[Any]] = [[room.player, goals, 0, tuple(targets), 0, 0]]
    while path:
        frame = path[-1]
        player, still, pulled, places, pulls, action = frame
        if action == 8 or len(path) >= MAX_DEPTH:
            path.pop()
            continue
        frame[5] = action + 1
        offset = offsets[action % 4]
        ahead, boxes = player + offset, still | pulled
        if ahead not in floor or boxes >> ahead & 1:
            continue
        behind = player - offset
        if boxes >> behind & 1:
            if action < 4:
                still, pulled = still & ~(1 << behind), pulled & ~(1 << behind) | 1 << player
                places = tuple([player if box == behind else box for box in places])
                pulls += 1
        elif action >= 4:
            continue  # the same as with a pull
        key = (ahead, still, pulled)
        if key in explored:
            continue
        if len(explored) >= MAX_POSITIONS:
            break
        explored.add(key)
        if not (still | pulled | 1 << ahead) & goals:
            score = pulls * sum([_distance(*pair, width) for pair in zip(targets, places, strict=True)])
            if score > best.score:
                best = Start(score, ahead, places)
        path.append([ahead, still, pulled, places, pulls, 0])
    order = [targets.index(target) for target in room.targets]
    return Start(best.score, best.player, tuple([best.boxes[index] for index in order]))


def _bits(cells: Sequence[int]) -> int:
    return sum([1 << cell for cell in cells])


def _distance(one: int, other: int, width: int) -> int:
    return abs(one // width - other // width) + abs(one % width - other % width)
