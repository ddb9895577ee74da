"""The tasks of the suite: grids and Sokoban levels as tables, with what the policy sees of each state.

Kinds: the four kinds of grid; ``sokoban``, generated levels with few states; ``fresh``, which is ``pits`` with state keys that never
repeat (like a key that includes the history, which no two episodes share after their first turn).
The policy sees a few parts of a state, each a small integer with the same meaning in every task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import Any, Final, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import OracleLimitError, unknown_name_error
from creditflow.envs.registration import make
from creditflow.envs.sokoban.levels.xsb import Level, parse_level
from creditflow.envs.sokoban.rules import BOX, PLAYER_ON_TARGET, TARGET, WALL, direction_offsets, move
from creditflow.train.bench.exact.grid_layouts import HORIZON, KINDS, PIT, STEPS, Cell, GridLayout, grid_mdp
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.exact.tasks import GRID_BLOCK, SOKOBAN_HORIZON, grid_layouts, sokoban_boards

__all__ = [
    "SHARED_KINDS",
    "Keys",
    "ViewedTask",
    "grid_parts",
    "keys_of",
    "kind_of_tasks",
    "sokoban_parts",
    "viewed_tasks",
]

Keys = Literal["distinct", "aliased", "fresh"]
# the kinds, each with the number of its random streams
SHARED_KINDS: Final[Mapping[str, int]] = {
    **{kind: number for number, kind in enumerate(KINDS)},
    "fresh": 4,
    "sokoban": 5,
}
MAX_STATES: Final = 300  # of one Sokoban level
LEVEL_SIZES: Final[tuple[Mapping[str, int], ...]] = tuple(
    {"height": side, "width": side, "boxes": boxes, "min_length": 4, "max_length": 25}
    for side, boxes in ((6, 1), (6, 2), (7, 2))
)


class ViewedTask(NamedTuple):
    """A task and what the policy sees of it.

    Attributes:
        mdp: the task as tables.
        parts: int64 (S, K), the parts of each acting state's observation.
    """

    mdp: FiniteMDP
    parts: NDArray[np.int64]


def kind_of_tasks(kind: str) -> str:
    """The kind whose tasks these are; kinds with fresh keys have those of another kind."""
    return "pits" if kind == "fresh" else kind


def keys_of(kind: str) -> Keys:
    """Whether each state of a kind has its own key, several states share one, or every visit has a new one."""
    if kind == "alias":
        return "aliased"
    return "fresh" if kind == "fresh" else "distinct"


def viewed_tasks(kind: str, seed: int, unit: int, count: int) -> list[ViewedTask]:
    """The tasks of one layout seed, generated from it and the benchmark's seed: others under every other one.

    Args:
        kind: one of ``SHARED_KINDS``.
        seed: seed of the benchmark.
        unit: number of the layout seed.
        count: number of tasks.

    Raises:
        ConfigError: the kind is unknown.
    """
    if kind not in SHARED_KINDS:
        raise unknown_name_error("kind of task", kind, SHARED_KINDS)
    if kind == "sokoban":
        return [task for task, _ in sokoban_tasks(seed, unit, count, SOKOBAN_HORIZON)]
    layouts = islice(unit_layouts(kind_of_tasks(kind), seed, unit, count), count)
    return [viewed_grid(layout, HORIZON) for layout in layouts]


def viewed_grid(layout: GridLayout, horizon: int) -> ViewedTask:
    """A layout as a task."""
    mdp = grid_mdp(layout, horizon)
    return ViewedTask(mdp, grid_parts(layout, mdp))


def unit_layouts(kind: str, seed: int, unit: int, count: int) -> Iterator[GridLayout]:
    """Yield the layouts of one layout seed; the first ``count`` of them occur under no other layout seed."""
    return grid_layouts(kind, seed, unit * -(-count // GRID_BLOCK))


@lru_cache(maxsize=16)
def sokoban_tasks(seed: int, unit: int, count: int, horizon: int) -> tuple[tuple[ViewedTask, tuple[bytes, ...]], ...]:
    """Generated levels of several sizes with at most ``MAX_STATES`` states, no two of them equal up to symmetry; with each state's board."""
    rng = np.random.default_rng([seed, unit])
    sources = [
        cast(
            "AgentEnv[Any, Any, Any]", make("sokoban", generator=dict(size), max_steps=SOKOBAN_HORIZON).unwrapped
        ).tasks
        for size in LEVEL_SIZES
    ]
    tasks = list[tuple[ViewedTask, tuple[bytes, ...]]]()
    seen = set[str]()
    while len(tasks) < count:
        task = sources[int(rng.integers(len(sources)))].sample(rng)
        level = parse_level(str(task.content["xsb"]))
        try:
            mdp, boards = sokoban_boards(level, horizon, cap=MAX_STATES)
        except OracleLimitError:  # a larger level
            continue
        if task.canonical_id in seen:
            continue
        seen.add(task.canonical_id)
        mdp = replace(mdp, name=task.task_id)
        tasks.append((ViewedTask(mdp, sokoban_parts(level, mdp)), boards))
    return tuple(tasks)


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
