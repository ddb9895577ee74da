"""The random walk that clears the cells of a room; what differs between generators are its steps and stamps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from creditflow.envs.tasks import sample_index

__all__ = ["Offset", "walk_cells"]

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
