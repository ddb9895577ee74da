"""Seeded levels of exactly known difficulty.

A random walk carves a room, targets are placed on random cells, and the oracle's table then has the exact solution length
of *every* start in that room, from which one of a requested length is sampled: solvable by construction, without a search
per start. Only raw 64-bit integers of a NumPy generator are used, so a seed gives the same level under any NumPy version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np

from creditflow.envs.errors import ConfigError, short_repr, unknown_name_error
from creditflow.envs.sokoban.levels.xsb import MAX_SIDE, Level, parse_level
from creditflow.envs.sokoban.rules import (
    BOX,
    BOX_ON_TARGET,
    FLOOR,
    PLAYER,
    PLAYER_ON_TARGET,
    TARGET,
    WALL,
    direction_offsets,
    to_position,
)
from creditflow.envs.sokoban.state_space import solution_table
from creditflow.envs.tasks import sample_index

__all__ = ["MAX_ROOMS", "GeneratorOptions", "Offset", "generate_level", "level_of", "walk_cells"]

TURN_PERCENT: Final = 35  # of 100 steps turn
Offset = tuple[int, int]  # rows, columns


def walk_cells(
    rng: np.random.Generator,
    shape: tuple[int, int],
    start: Offset,
    number: int,
    steps: Sequence[Offset],
    stamps: Sequence[Sequence[Offset]],
) -> list[int]:
    """Return the cells that a walk inside the outer walls clears, ascending, as row * columns + column.

    Args:
        rng: its raw integers are used.
        shape: rows and columns, with the outer walls.
        start: the position before the first step.
        number: number of steps.
        steps: directions, by their number.
        stamps: offsets around a position that are cleared together, by their number.
    """
    (height, width), (row, column) = shape, start
    step = steps[sample_index(rng, len(steps))]
    cells = set()
    for _ in range(number):
        if sample_index(rng, 100) < TURN_PERCENT:
            step = steps[sample_index(rng, len(steps))]
        row = min(max(row + step[0], 1), height - 2)
        column = min(max(column + step[1], 1), width - 2)
        for down, right in stamps[sample_index(rng, len(stamps))]:
            if 0 < row + down < height - 1 and 0 < column + right < width - 1:
                cells.add((row + down) * width + column + right)
    return sorted(cells)


MAX_ROOMS: Final = 1000
STEPS_PER_SIDE: Final = 17  # tenths
# Cells that the walk clears around its position, as (row, column) offsets; each includes (0, 0).
STAMPS: Final = (
    ((0, 0), (0, 1)),
    ((0, 0), (1, 0)),
    ((0, 0), (0, -1), (0, 1)),
    ((0, 0), (-1, 0), (1, 0)),
    ((0, 0), (0, 1), (1, 0), (1, 1)),
    ((0, 0), (0, -1), (-1, 0)),
)
STEPS: Final = ((-1, 0), (1, 0), (0, -1), (0, 1))
_XSB_CODES: Final = bytes.maketrans(bytes(range(8)), b"# .*$@+\n")


@dataclass(frozen=True, slots=True)
class GeneratorOptions:
    """Options of generated levels.

    Attributes:
        height: rows, including the outer walls.
        width: columns, including the outer walls.
        boxes: number of boxes.
        min_length: least length of a shortest solution, in moves.
        max_length: greatest length of a shortest solution.

    Raises:
        ConfigError: a value out of range.
    """

    height: int = 6
    width: int = 6
    boxes: int = 1
    min_length: int = 2
    max_length: int = 200

    def __post_init__(self) -> None:
        bounds = {"height": (5, MAX_SIDE), "width": (5, MAX_SIDE), "boxes": (1, 8)}
        bounds |= {"min_length": (1, 30_000), "max_length": (self.min_length, 30_000)}
        for name, (low, high) in bounds.items():
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise ConfigError(
                    f"generator option {name} must be an integer from {low} to {high}, got {short_repr(value)}"
                )

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> GeneratorOptions:
        """Make options from a mapping.

        Raises:
            ConfigError: an unknown option (suggests the nearest one) or an invalid value.
        """
        if not isinstance(options, Mapping):
            raise ConfigError(f"generator must be a mapping of options, got {short_repr(options)}")
        names = [field.name for field in fields(cls)]
        for name in options:
            if name not in names:
                raise unknown_name_error("generator option", str(name), names)
        return cls(**options)

    def level(self, rng: np.random.Generator) -> Level:
        """Generate a level with raw integers of ``rng``."""
        return generate_level(rng, self)


def generate_level(rng: np.random.Generator, options: GeneratorOptions) -> Level:
    """Generate a level with a shortest solution of ``min_length`` to ``max_length`` moves and no box on a target.

    The length is uniform among those that the room offers, the start uniform among the starts of that length.

    Args:
        rng: source of raw integers.
        options: options of the level.

    Raises:
        ConfigError: no such level was found in 1,000 rooms.
        OracleLimitError: the exact table of such a room would exceed the memory limit.
    """
    offsets = direction_offsets(options.width)
    for _ in range(MAX_ROOMS):
        floor = _carve(rng, options.height, options.width)
        if len(floor) < 2 * options.boxes + 1:
            continue
        pool = list(floor)
        targets = [pool.pop(sample_index(rng, len(pool))) for _ in range(options.boxes)]
        table = solution_table(floor, offsets, targets)
        by_rank = table.layers.reshape(-1, table.size)
        target_cells = [table.box_index[position] for position in targets]
        on_target = np.asarray(np.isin(table.subsets, target_cells).any(axis=1))
        eligible = (by_rank >= options.min_length) & (by_rank <= options.max_length) & ~on_target[:, None]
        candidates = np.flatnonzero(eligible)
        if not len(candidates):
            continue
        lengths = table.layers[candidates]
        available = np.flatnonzero(np.bincount(lengths))
        starts = candidates[lengths == available[sample_index(rng, len(available))]]
        rank, player = divmod(int(starts[sample_index(rng, len(starts))]), table.size)
        box_cells = list(table.box_index)
        boxes = [box_cells[index] for index in table.subsets[rank]]
        return level_of(options, floor, targets, boxes, floor[player])
    raise ConfigError(
        f"found no level with {options} in {MAX_ROOMS} rooms; widen min_length and max_length or enlarge the room"
    )


def _carve(rng: np.random.Generator, height: int, width: int) -> list[int]:
    """Return the positions of a random connected room inside the outer walls, ascending."""
    start = 1 + sample_index(rng, height - 2), 1 + sample_index(rng, width - 2)
    room = walk_cells(rng, (height, width), start, STEPS_PER_SIDE * (height + width) // 10, STEPS, STAMPS)
    return [to_position(cell, width) for cell in room]


def level_of(
    options: GeneratorOptions, floor: Sequence[int], targets: Sequence[int], boxes: Sequence[int], player: int
) -> Level:
    """Return the level with these positions of floor, targets, boxes and player."""
    board = bytearray((bytes([WALL]) * options.width + b"\x07") * options.height)[:-1]
    for position in floor:
        board[position] = FLOOR
    for position in targets:
        board[position] = TARGET
    for position in boxes:
        board[position] = BOX_ON_TARGET if board[position] == TARGET else BOX
    board[player] = PLAYER_ON_TARGET if board[player] == TARGET else PLAYER
    return parse_level(board.translate(_XSB_CODES).decode("ascii"), source="generated level")
