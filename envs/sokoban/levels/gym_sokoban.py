"""Levels distributed as those of gym-sokoban 0.0.6, from seeds, for results that are comparable with its users' papers.

Its procedure, in own words: a random walk carves a room; a player and targets are placed on random cells; a depth-first search
plays backwards from the solved position, pulling boxes or walking, and keeps the position of the highest score, which is
the number of pulls on the way times the sum of the boxes' distances from their targets (zero unless every target is
visible: no box and no player on it). Rooms whose best score is zero are rejected.

Two traits of the original belong to the distribution and are kept: the search never visits a position twice, so that what
lies beyond one that was first reached near the depth limit stays unexplored; and a box that was pulled back to where it
began counts as another position than one that was never pulled.

``RagenOptions`` are those of RAGEN's fork of this generator, whose levels are longer: its search pulls whenever it can, its score
counts how often another box is pulled instead of the pulls, and the player then walks up to three steps at random.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from creditflow.envs.errors import ConfigError
from creditflow.envs.sokoban.levels.generator import MAX_ROOMS, GeneratorOptions, level_of, walk_cells
from creditflow.envs.sokoban.levels.xsb import Level
from creditflow.envs.sokoban.oracle import LevelOracle
from creditflow.envs.sokoban.rules import to_position
from creditflow.envs.tasks import sample_index

__all__ = [
    "GymSokobanOptions",
    "RagenOptions",
    "Room",
    "Start",
    "carve_room",
    "generate_gym_sokoban_level",
    "reverse_start",
    "walk_away",
]

MAX_DEPTH: Final = 299  # positions on a path of the search
MAX_POSITIONS: Final = 300_000
MAX_WALK: Final = 3  # steps of RAGEN's random walk
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

    def start(self, room: Room, _rng: np.random.Generator) -> Start:
        """Return the start of a level in this room; its score is 0 if the room has none."""
        return reverse_start(room)


@dataclass(frozen=True, slots=True)
class RagenOptions(GymSokobanOptions):
    """Options of levels of RAGEN's distribution (github.com/mll-lab-nu/RAGEN, ``ragen/env/sokoban/utils.py``)."""

    def start(self, room: Room, rng: np.random.Generator) -> Start:
        """Return the start of a level in this room, from which the player has walked at random."""
        start = reverse_start(room, count="swaps")
        return start if start.score == 0 else walk_away(start, room, rng)


class Room(NamedTuple):
    """A carved room with its boxes and its player; cells are ``row * width + column``.

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
        start = options.start(room, rng)
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


def walk_away(start: Start, room: Room, rng: np.random.Generator) -> Start:
    """Return the start after a random walk of RAGEN's: none in half of the cases, in a fifth if the boxes are one cell from their targets.

    Every further step, up to three, is taken with probability one half, onto a free cell where the player has not been.
    """
    distance = sum([_distance(*pair, room.width) for pair in zip(room.targets, start.boxes, strict=True)])
    if sample_index(rng, 10) >= (8 if distance == 1 else 5):
        return start
    walked = [start.player]
    while len(walked) <= MAX_WALK:
        around = [walked[-1] + offset for offset in (-room.width, room.width, -1, 1)]
        free = [cell for cell in around if cell in room.floor and cell not in (*start.boxes, *walked)]
        if not free:
            break
        walked.append(free[sample_index(rng, len(free))])
        if sample_index(rng, 2):
            break
    return start._replace(player=walked[-1])


def reverse_start(room: Room, count: Literal["pulls", "swaps"] = "pulls") -> Start:
    """Return the best start of a room: the search of the original, position by position in its order.

    A position is the player's cell, the set of boxes that were never pulled, and the set of those that were, as bits.

    Args:
        room: the room.
        count: what the score counts: "pulls", or "swaps" as RAGEN has it: how often another box than before is pulled. That
            search has no steps that leave a box behind.
    """
    width, floor = room.width, frozenset(room.floor)
    offsets = (-width, width, -1, 1)  # up, down, left, right; first with a pull, then without
    goals = _bits(room.targets)
    targets = sorted(room.targets)
    best = Start(0, room.player, tuple(targets))
    explored = {(room.player, goals, 0)}
    actions = 8 if count == "pulls" else 4
    # player, never pulled, pulled, place of each box, pulls or swaps, box pulled last, next of the actions
    path: list[list[Any]] = [[room.player, goals, 0, tuple(targets), 0, -1, 0]]
    while path:
        frame = path[-1]
        player, still, pulled, places, counted, last, action = frame
        if action == actions or len(path) >= MAX_DEPTH:
            path.pop()
            continue
        frame[6] = action + 1
        offset = offsets[action % 4]
        ahead, boxes = player + offset, still | pulled
        if ahead not in floor or boxes >> ahead & 1:
            continue
        behind = player - offset
        if boxes >> behind & 1:
            if action < 4:
                still, pulled = still & ~(1 << behind), pulled & ~(1 << behind) | 1 << player
                box = places.index(behind)
                places = (*places[:box], player, *places[box + 1 :])
                counted += count == "pulls" or box != last
                last = box
        elif action >= 4:
            continue  # the same as with a pull
        key = (ahead, still, pulled)
        if key in explored:
            continue
        if len(explored) >= MAX_POSITIONS:
            break
        explored.add(key)
        if not (still | pulled | 1 << ahead) & goals:
            score = counted * sum([_distance(*pair, width) for pair in zip(targets, places, strict=True)])
            if score > best.score:
                best = Start(score, ahead, places)
        path.append([ahead, still, pulled, places, counted, last, 0])
    order = [targets.index(target) for target in room.targets]
    return Start(best.score, best.player, tuple([best.boxes[index] for index in order]))


def _bits(cells: Sequence[int]) -> int:
    return sum([1 << cell for cell in cells])


def _distance(one: int, other: int, width: int) -> int:
    return abs(one // width - other // width) + abs(one % width - other % width)
