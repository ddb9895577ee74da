"""Small grid worlds as layouts: generated from a seed, drawn as text, tabulated exactly.

Four kinds, each testing one property of a scheme. ``open``: walls only, no state is dead. ``pits``: absorbing
cells, so that a single move can make success impossible. ``alias``: pits, and pairs of cells that share one text key while
the policy still tells them apart. ``slip``: pits, and one action in ten is replaced by a random one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np

from creditflow.envs.errors import unknown_name_error
from creditflow.envs.tasks import content_id, sample_index
from creditflow.train.bench.exact.mdp import FiniteMDP

__all__ = [
    "ACTIONS",
    "HORIZON",
    "KINDS",
    "GridLayout",
    "floor_depths",
    "generate_layout",
    "grid_cells",
    "grid_mdp",
    "scattered",
]

ACTIONS: Final = ("up", "down", "left", "right")
STEPS: Final = ((-1, 0), (1, 0), (0, -1), (0, 1))
KINDS: Final = ("open", "pits", "alias", "slip")
SIDE: Final = 6
WALLS: Final = 6
PITS: Final = 4
ALIASED: Final = 12  # cells, two per label
MIN_DISTANCE, MAX_DISTANCE = 4, 7  # from start to goal, in turns
SLIP_PERCENT: Final = 10
HORIZON: Final = 20
Cell = tuple[int, int]  # row, column
PIT: Final[Cell] = (-1, -1)  # all pits are one absorbing state


@dataclass(frozen=True)
class GridLayout:
    """A grid world.

    Attributes:
        rows: strings of equal length: ``#`` wall, ``.`` floor, ``S`` start, ``G`` goal, ``x`` pit; walls surround the grid.
        labels: strings of the same shape; cells with the same letter share one text key, ``.`` cells have their own.
        slip_percent: probability, in percent, that an action is replaced by a uniformly random one.
    """

    rows: tuple[str, ...]
    labels: tuple[str, ...]
    slip_percent: int

    @cached_property
    def start(self) -> Cell:
        """The cell of ``S``."""
        return next((r, row.index("S")) for r, row in enumerate(self.rows) if "S" in row)

    @cached_property
    def digest(self) -> str:
        """Hash of the content, twelve hexadecimal digits."""
        return content_id("", self.content)[1:13]

    @property
    def content(self) -> dict[str, Any]:
        """Content of the task as plain JSON values."""
        return {"rows": list(self.rows), "labels": list(self.labels), "slip_percent": self.slip_percent}

    def at(self, cell: Cell) -> str:
        """The symbol of a cell; "x" in a pit."""
        return "x" if cell == PIT else self.rows[cell[0]][cell[1]]

    def move(self, cell: Cell, action: int) -> Cell:
        """The next cell if the action is not replaced."""
        if cell == PIT:
            return PIT
        row, column = cell[0] + STEPS[action][0], cell[1] + STEPS[action][1]
        if not (0 <= row < len(self.rows) and 0 <= column < len(self.rows[0])) or self.rows[row][column] == "#":
            return cell
        return PIT if self.rows[row][column] == "x" else (row, column)

    def keys(self, cell: Cell) -> tuple[str, str]:
        """State key and text key."""
        if cell == PIT:
            key = f"{self.digest}:pit"
            return key, key
        key = f"{self.digest}:{cell[0]},{cell[1]}"
        label = self.labels[cell[0]][cell[1]]
        return key, key if label == "." else f"{self.digest}:{label}"


def generate_layout(kind: str, rng: np.random.Generator) -> GridLayout:
    """Generate a layout of a kind; only raw integers are drawn from ``rng``.

    Raises:
        ConfigError: the kind is unknown.
    """
    if kind not in KINDS:
        raise unknown_name_error("kind of grid", kind, KINDS)
    while True:
        rows, goal = scattered(rng, SIDE, WALLS, PITS if kind != "open" else 0)
        plain = GridLayout(rows, ("." * SIDE,) * SIDE, SLIP_PERCENT if kind == "slip" else 0)
        floor = floor_depths(plain)
        if not MIN_DISTANCE <= floor.get(goal, 0) <= MAX_DISTANCE:
            continue
        if kind != "alias":
            return plain
        pool = sorted(cell for cell in floor if plain.at(cell) == ".")
        if len(pool) < ALIASED:
            continue
        chosen = [pool.pop(sample_index(rng, len(pool))) for _ in range(ALIASED)]
        letter = {cell: "abcdefghijkl"[i // 2] for i, cell in enumerate(chosen)}
        return GridLayout(rows, _drawn_rows(letter, SIDE), 0)


def _drawn_rows(symbols: Mapping[Cell, str], side: int) -> tuple[str, ...]:
    """The rows of a square: the symbol of each cell, "." where there is none."""

    def row(r: int) -> str:
        return "".join(symbols.get((r, c), ".") for c in range(side))

    return tuple(map(row, range(side)))


def scattered(rng: np.random.Generator, side: int, walls: int, pits: int) -> tuple[tuple[str, ...], Cell]:
    """The rows of a square grid with walls, start, goal and pits at random places, and the cell of the goal."""
    cells = [(r, c) for r in range(side) for c in range(side)]
    drawn = [cells.pop(sample_index(rng, len(cells))) for _ in range(walls + 2 + pits)]
    symbols = dict.fromkeys(drawn[:walls], "#") | {drawn[walls]: "S", drawn[walls + 1]: "G"}
    symbols |= dict.fromkeys(drawn[walls + 2 :], "x")
    return _drawn_rows(symbols, side), drawn[walls + 1]


def floor_depths(layout: GridLayout) -> dict[Cell, int]:
    """The cells that can be reached without entering a pit, each with its number of turns from the start."""
    depth = {layout.start: 0}
    queue = deque([layout.start])
    while queue:
        cell = queue.popleft()
        if layout.at(cell) == "G":
            continue
        for action in range(4):
            after = layout.move(cell, action)
            if after != PIT and after not in depth:
                depth[after] = depth[cell] + 1
                queue.append(after)
    return depth


def grid_cells(layout: GridLayout) -> tuple[list[Cell], list[Cell]]:
    """The cells in which the agent acts, the start first, and the goals, in the order of ``grid_mdp``'s states."""
    floor = sorted(floor_depths(layout))
    acting = [layout.start, *(cell for cell in floor if layout.at(cell) != "G" and cell != layout.start)]
    if any(layout.move(cell, action) == PIT for cell in acting for action in range(4)):
        acting.append(PIT)
    return acting, [cell for cell in floor if layout.at(cell) == "G"]


@lru_cache(maxsize=1024)
def grid_mdp(layout: GridLayout, horizon: int) -> FiniteMDP:
    """The layout as tables."""
    acting, goals = grid_cells(layout)
    number = {cell: i for i, cell in enumerate([*acting, *goals])}
    intended = np.array([[number[layout.move(cell, action)] for action in range(4)] for cell in acting], np.int32)
    if layout.slip_percent:
        slip = layout.slip_percent / 100.0
        next_states = np.broadcast_to(intended[:, None, :], (len(acting), 4, 4)).copy()
        transition_probs = np.broadcast_to((1.0 - slip) * np.eye(4) + slip / 4.0, next_states.shape).copy()
    else:
        next_states = intended[:, :, None]
        transition_probs = np.ones(next_states.shape)
    names = [layout.keys(cell) for cell in [*acting, *goals]]
    return FiniteMDP(
        name=layout.digest,
        keys=tuple(key for key, _ in names),
        text_keys=tuple(text for _, text in names),
        actions=ACTIONS,
        next_states=next_states,
        transition_probs=transition_probs,
        terminal_score=np.ones(len(goals)),
        terminal_success=np.ones(len(goals), np.bool_),
        limit_score=np.zeros(len(acting)),
        start=0,
        horizon=horizon,
    )
