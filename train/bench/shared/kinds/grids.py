"""Grids for which no scheme was designed: misleading shortcuts, graded exits, and solutions of dozens of turns.

``trapdoors``: every shortest path leads through a cell in which most episodes fail, and there is a longer path around it. The
most likely single result of entering it is to pass, so distances count it as passable, and so does a group's observed graph
after one rollout that passed. ``graded``: two exits end the episode with a lower score than the goal. ``long``: walls and pits on a
grid four times as large, with three times as many turns. ``key``: pits, and a goal that opens only with a key, which lies
elsewhere; the text key is the agent's cell, which hides whether it has the key.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.exact.grid_layouts import (
    ACTIONS,
    Cell,
    GridLayout,
    floor_depths,
    grid_cells,
    grid_mdp,
    scattered,
)
from creditflow.train.bench.exact.gridworlds import HORIZON
from creditflow.train.bench.exact.mdp import FiniteMDP, explore
from creditflow.train.bench.shared.kinds.views import LESSER_EXIT, TRAPDOOR, grid_parts

__all__ = ["LONG_HORIZON", "graded", "key_and_door", "long_layouts", "trapdoors"]

PASS: Final = 0.4  # probability of passing a trapdoor; otherwise one falls to the left or to the right, equally likely
EXIT_SCORES: Final = (0.2, 0.5)
MIN_EXIT_DEPTH: Final = 2  # turns from the start
MIN_KEY_DEPTH: Final = 2
LONG_SIDE, LONG_WALLS, LONG_PITS, LONG_HORIZON = 12, 40, 8, 60
MIN_LONG_DISTANCE, MAX_LONG_DISTANCE = 12, 24
Parts = NDArray[np.int64]


def trapdoors(layout: GridLayout) -> tuple[FiniteMDP, Parts] | None:
    """Add trapdoors to an open grid; returns its tables and what the policy sees, or None if there is no path around them.

    The trapdoors are all cells of shortest paths at the smallest number of turns from the start for which the goal can still be
    reached without them. A fall ends the episode.
    """
    acting, (goal, *_) = grid_cells(layout)
    on_shortest = _shortest_ways(layout, goal)
    chosen = next((cells for _, cells in sorted(on_shortest.items()) if _way_around(layout, goal, cells)), None)
    if chosen is None:
        return None
    plain = grid_mdp(layout, HORIZON)
    size, ends = plain.size, len(plain.terminal_score)
    after = plain.next_states[:, :, 0]
    moved = after != np.arange(size)[:, None]
    entered = moved & np.isin(after, [acting.index(cell) for cell in chosen])
    falls = np.where(entered[:, :, None], size + ends + np.arange(2), plain.next_states)
    chances = np.array([PASS, (1.0 - PASS) / 2.0, (1.0 - PASS) / 2.0])
    fallen = tuple(f"{layout.digest}:fallen {side}" for side in ("left", "right"))
    mdp = replace(
        plain,
        name=f"{layout.digest}:trapdoors",
        keys=plain.keys + fallen,
        text_keys=plain.text_keys + fallen,
        next_states=np.concatenate([plain.next_states, falls], axis=2).astype(np.int32),
        transition_probs=np.where(entered[:, :, None], chances, np.array([1.0, 0.0, 0.0])),
        terminal_score=np.concatenate([plain.terminal_score, np.zeros(2)]),
        terminal_success=np.concatenate([plain.terminal_success, np.zeros(2, np.bool_)]),
    )
    return mdp, grid_parts(layout, mdp, dict.fromkeys(chosen, TRAPDOOR))


def _shortest_ways(layout: GridLayout, goal: Cell) -> dict[int, list[Cell]]:
    """The cells between start and goal that lie on shortest paths, by turns from the start."""
    from_start, from_goal = floor_depths(layout), _depths_from(layout, goal)
    length = from_start[goal]
    layers = defaultdict[int, list[Cell]](list)
    for cell in sorted(from_start):
        depth = from_start[cell]
        if 0 < depth < length and cell in from_goal and depth + from_goal[cell] == length:
            layers[depth].append(cell)
    return layers


def _depths_from(layout: GridLayout, cell: Cell) -> dict[Cell, int]:
    """Turns from every cell to this one; on an open grid every move can be reversed."""
    return floor_depths(_changed(layout, {cell: "S", layout.start: "."}))


def _way_around(layout: GridLayout, goal: Cell, cells: list[Cell]) -> bool:
    """Whether the goal can be reached within the turn limit without these cells."""
    return _depths_without(layout, cells).get(goal, HORIZON + 1) <= HORIZON


def _depths_without(layout: GridLayout, cells: Sequence[Cell]) -> dict[Cell, int]:
    """Turns from the start to every cell, with walls in place of ``cells``."""
    return floor_depths(_changed(layout, dict.fromkeys(cells, "#")))


def _changed(layout: GridLayout, symbols: Mapping[Cell, str]) -> GridLayout:
    """The layout with other symbols in some cells."""
    cells = [list(row) for row in layout.rows]
    for (row, column), symbol in symbols.items():
        cells[row][column] = symbol
    return replace(layout, rows=tuple(map("".join, cells)))


def graded(layout: GridLayout) -> tuple[FiniteMDP, Parts] | None:
    """Add two lesser exits to an open grid; returns its tables and what the policy sees, or None if they block the way to a cell.

    The exits are chosen at random, seeded by the layout's digest. Only the goal is a success.
    """
    acting, (goal, *_) = grid_cells(layout)
    depth = floor_depths(layout)
    pool = [cell for cell in acting if depth.get(cell, 0) >= MIN_EXIT_DEPTH]
    order = np.random.default_rng(int(layout.digest, 16)).permutation(len(pool))[: len(EXIT_SCORES)]
    exits = [pool[i] for i in order.tolist()]
    inside = _depths_without(layout, exits)
    first, second = exits
    reached = first in _depths_without(layout, [second]) and second in _depths_without(layout, [first])
    if not reached or inside.get(goal, HORIZON + 1) > HORIZON or len(inside) + len(exits) < len(depth):
        return None
    plain = grid_mdp(layout, HORIZON)
    exit_states = [acting.index(cell) for cell in exits]
    inside_states = [state for state in range(plain.size) if state not in exit_states]
    number = np.zeros(len(plain.keys), np.int32)  # of each old state: the kept ones, the goal, the exits
    number[[*inside_states, *range(plain.size, len(plain.keys)), *exit_states]] = np.arange(len(plain.keys))
    names = [f"{layout.digest}:exit {score:g}" for score in EXIT_SCORES]

    def renamed(keys: tuple[str, ...]) -> tuple[str, ...]:
        return (*(keys[state] for state in inside_states), *keys[plain.size :], *names)

    mdp = replace(
        plain,
        name=f"{layout.digest}:graded",
        keys=renamed(plain.keys),
        text_keys=renamed(plain.text_keys),
        next_states=number[plain.next_states[inside_states]],
        transition_probs=plain.transition_probs[inside_states],
        terminal_score=np.concatenate([plain.terminal_score, EXIT_SCORES]),
        terminal_success=np.concatenate([plain.terminal_success, np.zeros(len(exits), np.bool_)]),
        limit_score=plain.limit_score[inside_states],
    )
    return mdp, grid_parts(layout, mdp, {cell: LESSER_EXIT + i for i, cell in enumerate(exits)})


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
