"""Grids beyond those of the exact suites.

``long``: walls and pits on a grid four times as large, with three times as many turns. ``key``: pits, and a goal that opens only with
a key, which lies elsewhere; the text key is the agent's cell, which hides whether it has the key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.exact.grid_layouts import ACTIONS, Cell, GridLayout, floor_depths, grid_cells, scattered
from creditflow.train.bench.exact.gridworlds import HORIZON
from creditflow.train.bench.exact.mdp import FiniteMDP, explore
from creditflow.train.bench.shared.kinds.views import grid_parts

__all__ = ["LONG_HORIZON", "key_and_door", "long_layouts"]

MIN_KEY_DEPTH: Final = 2
LONG_SIDE, LONG_WALLS, LONG_PITS, LONG_HORIZON = 12, 40, 8, 60
MIN_LONG_DISTANCE, MAX_LONG_DISTANCE = 12, 24
Parts = NDArray[np.int64]


def _depths_without(layout: GridLayout, cells: Sequence[Cell]) -> dict[Cell, int]:
    """Turns from the start to every cell, with walls in place of ``cells``."""
    return floor_depths(_changed(layout, dict.fromkeys(cells, "#")))


def _changed(layout: GridLayout, symbols: Mapping[Cell, str]) -> GridLayout:
    """The layout with other symbols in some cells."""
    cells = [list(row) for row in layout.rows]
    for (row, column), symbol in symbols.items():
        cells[row][column] = symbol
    return replace(layout, rows=tuple(map("".join, cells)))


def key_and_door(layout: GridLayout) -> tuple[FiniteMDP, Parts] | None:
    """Put a key into a grid, without which the goal cannot be entered; returns its tables and what the policy sees.

    The key lies in a cell chosen at random, seeded by the layout's digest. The policy sees whether it has the key, the direction
    of the key or then of the goal, and the effects of the moves. None if key and goal cannot be reached within the turn limit.
    """
    acting, (goal, *_) = grid_cells(layout)
    depth = floor_depths(layout)
    pool = [cell for cell in acting if cell in depth and depth[cell] >= MIN_KEY_DEPTH]
    if not pool:
        return None
    key_cell = pool[int(np.random.default_rng(int(layout.digest, 16)).integers(len(pool)))]
    if depth[key_cell] + _depths_without(_moved_start(layout, key_cell), []).get(goal, HORIZON + 1) > HORIZON:
        return None

    def results(state: tuple[Cell, bool], action: int) -> tuple[tuple[Cell, bool], float | None, bool]:
        cell, has_key = state
        after = layout.move(cell, action)
        if after == goal and not has_key:
            after = cell
        opened = after == goal
        return (after, has_key or after == key_cell), 1.0 if opened else None, opened

    def keys(state: tuple[Cell, bool]) -> tuple[str, str]:
        text = layout.keys(state[0])[0]
        return f"{text}:{'key' if state[1] else 'no key'}", text

    name = f"{layout.digest}:key"
    mdp = explore((layout.start, False), ACTIONS, results, keys, name=name, horizon=HORIZON, cap=2 * len(acting) + 2)
    without = grid_parts(_changed(layout, {goal: "#", key_cell: "G"}), mdp)
    with_key = grid_parts(layout, mdp)
    has_key = np.array([key.endswith(":key") for key in mdp.keys[: mdp.size]])
    views = np.where(has_key[:, None], with_key, without)
    marks = np.where(views[:, :1] >= 0, has_key[:, None], views[:, :1])
    return mdp, np.concatenate([marks, views], axis=1).astype(np.int64)


def _moved_start(layout: GridLayout, cell: Cell) -> GridLayout:
    return layout if cell == layout.start else _changed(layout, {cell: "S", layout.start: "."})


def long_layouts(seed: int, unit: int) -> Iterator[GridLayout]:
    """Yield large grids endlessly, different ones for every layout seed ``unit``."""
    rng = np.random.default_rng([seed, unit, LONG_SIDE])
    while True:
        rows, goal = scattered(rng, LONG_SIDE, LONG_WALLS, LONG_PITS)
        layout = GridLayout(rows, ("." * LONG_SIDE,) * LONG_SIDE, 0)
        if MIN_LONG_DISTANCE <= floor_depths(layout).get(goal, 0) <= MAX_LONG_DISTANCE:
            yield layout
