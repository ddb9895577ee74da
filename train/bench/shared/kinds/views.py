"""What a shared policy sees of a state: a few parts, each a small integer with the same meaning in every task."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.sokoban.levels.xsb import Level
from creditflow.envs.sokoban.rules import BOX, PLAYER_ON_TARGET, TARGET, WALL, direction_offsets, move
from creditflow.train.bench.exact.grid_layouts import PIT, STEPS, Cell, GridLayout
from creditflow.train.bench.exact.mdp import FiniteMDP

__all__ = ["grid_parts", "sokoban_parts"]

BLANK: Final = -1  # every part of a state without features
NOWHERE: Final = 9  # the direction where there is no object; 0 to 8 encode the signs of both differences
# the effect of a move; a hazard is a pit, or a push into a corner
FREE, BLOCKED, HAZARD, GOAL, PUSH = range(5)


def grid_parts(layout: GridLayout, mdp: FiniteMDP) -> NDArray[np.int64]:
    """Parts of the states of a grid, int64 (S, 5): the direction of the goal, and the effect of each of the four moves.

    A pit has no features: there is nothing to choose in it, and a policy with parameters there would spend much of the KL
    divergence of every step on the noise of outcome rewards.
    """
    goal = next((r, row.index("G")) for r, row in enumerate(layout.rows) if "G" in row)
    rows = []
    for key in mdp.keys[: mdp.size]:
        cell = key.split(":")[1]
        if cell == "pit":
            rows.append([BLANK] * (1 + len(STEPS)))
            continue
        row, column = (int(x) for x in cell.split(","))
        neighbours = [_grid_neighbour(layout, (row, column), action) for action in range(len(STEPS))]
        rows.append([_direction(goal[0] - row, goal[1] - column), *neighbours])
    return np.array(rows, np.int64)


def _grid_neighbour(layout: GridLayout, cell: Cell, action: int) -> int:
    after = layout.move(cell, action)
    if after == PIT:
        return HAZARD
    if after == cell:
        return BLOCKED
    return FREE


def sokoban_parts(level: Level, mdp: FiniteMDP) -> NDArray[np.int64]:
    """Parts of the states of a Sokoban level, int64 (S, 6).

    They are the direction of the nearest box that is not on a target, the direction from it to the nearest free target, and
    the effect of each of the four moves.
    """
    offsets = direction_offsets(level.width)
    boards = {mdp.start: (level.board, level.player)}
    pending = [mdp.start]
    rows = np.zeros((mdp.size, 2 + len(offsets)), np.int64)
    for state in pending:  # grows while it is iterated
        board, player = boards[state]
        box = _nearest(board, (BOX,), player, level.width)
        target = None if box is None else _nearest(board, (TARGET, PLAYER_ON_TARGET), box, level.width)
        towards = [_towards(start, end, level.width) for start, end in ((player, box), (box, target))]
        rows[state] = [*towards, *(_sokoban_neighbour(board, player, offset, offsets) for offset in offsets)]
        for action, offset in enumerate(offsets):
            after = int(mdp.next_states[state, action, 0])
            if after < mdp.size and after not in boards:
                boards[after] = move(board, player, offset)[:2]
                pending.append(after)
    return rows


def _sokoban_neighbour(board: bytes, player: int, offset: int, offsets: tuple[int, ...]) -> int:
    landing = player + 2 * offset
    _, _, moved, pushed, _ = move(board, player, offset)
    if not moved:
        return BLOCKED
    if not pushed:
        return FREE
    if board[landing] == TARGET:
        return GOAL
    up, down, left, right = (board[landing + step] == WALL for step in offsets)
    return HAZARD if (up or down) and (left or right) else PUSH


def _nearest(board: bytes, codes: tuple[int, ...], place: int, width: int) -> int | None:
    """The nearest position with one of these codes by Manhattan distance; the first of several."""
    row, column = divmod(place, width + 1)
    positions = [i for i, code in enumerate(board) if code in codes]
    return min(positions, key=lambda i: abs(i // (width + 1) - row) + abs(i % (width + 1) - column), default=None)


def _towards(start: int | None, end: int | None, width: int) -> int:
    if start is None or end is None:
        return NOWHERE
    (row, column), (other_row, other_column) = divmod(start, width + 1), divmod(end, width + 1)
    return _direction(other_row - row, other_column - column)


def _direction(rows: int, columns: int) -> int:
    """The direction, 0 to 8, from the signs of both differences."""
    return int(3 * (np.sign(rows) + 1) + np.sign(columns) + 1)
