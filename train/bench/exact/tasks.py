"""Tasks as exact tables: the layouts of grids by kind, and Sokoban levels, tabulated from the rules without environment or snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import numpy as np

from creditflow.envs.sokoban.levels.xsb import Level
from creditflow.envs.sokoban.rules import direction_offsets, move, solved, state_key
from creditflow.train.bench.exact.grid_layouts import KINDS, GridLayout, generate_layout
from creditflow.train.bench.exact.mdp import MAX_TABLE_STATES, FiniteMDP, explore

__all__ = ["GRID_BLOCK", "SOKOBAN_HORIZON", "grid_layouts", "sokoban_boards", "sokoban_mdp"]

SOKOBAN_HORIZON: Final = 30
GRID_BLOCK: Final = 32  # grid tasks per seed


def grid_layouts(kind: str, seed: int, block: int = 0) -> Iterator[GridLayout]:
    """Yield the layouts of a kind endlessly, from block ``block`` on."""
    while True:
        yield from _grid_block(kind, seed * 1_000_003 + block)
        block += 1


@lru_cache(maxsize=64)
def _grid_block(kind: str, seed: int) -> tuple[GridLayout, ...]:
    """The distinct layouts of a block: it has a seed of its own, so further blocks do not change the earlier ones."""
    streams = [np.random.Generator(np.random.PCG64([seed, KINDS.index(kind), i])) for i in range(GRID_BLOCK)]
    return tuple(dict.fromkeys(generate_layout(kind, rng) for rng in streams))


DIRECTIONS = ("up", "down", "left", "right")


def sokoban_mdp(level: Level, horizon: int, *, cap: int = MAX_TABLE_STATES) -> FiniteMDP:
    """All states reachable within ``horizon`` moves, with the keys of ``SokobanEnv``; see ``sokoban_boards``."""
    return sokoban_boards(level, horizon, cap=cap)[0]


def sokoban_boards(level: Level, horizon: int, *, cap: int = MAX_TABLE_STATES) -> tuple[FiniteMDP, tuple[bytes, ...]]:
    """All states reachable within ``horizon`` moves, with the keys of ``SokobanEnv``, and the board of each.

    Args:
        level: level to tabulate.
        horizon: turn limit.
        cap: maximum number of states.

    Raises:
        OracleLimitError: more states are reachable.
    """
    offsets = direction_offsets(level.width)
    boards = list[bytes]()

    def results(state: tuple[bytes, int], action: int) -> tuple[tuple[bytes, int], float | None, bool]:
        board, player, _, box_moved, _ = move(*state, offsets[action])
        done = box_moved and solved(board)
        return (board, player), 1.0 if done else None, done

    def keys(state: tuple[bytes, int]) -> tuple[str, str]:
        boards.append(state[0])  # in the order of the states
        key = state_key(state[0])
        return key, key

    mdp = explore(
        (level.board, level.player), DIRECTIONS, results, keys, name=level.name or "level", horizon=horizon, cap=cap
    )
    return mdp, tuple(boards)
