"""Exact values of all states of a level by state key, as potentials and tables need them."""

from __future__ import annotations

import numpy as np

from creditflow.envs.sokoban.levels.xsb import Level
from creditflow.envs.sokoban.oracle import level_oracle
from creditflow.envs.sokoban.rules import (
    BOX,
    BOX_ON_TARGET,
    FLOOR,
    PLAYER,
    PLAYER_ON_TARGET,
    TARGET,
    state_key,
)

__all__ = ["moves_left_by_key"]


def moves_left_by_key(level: Level, memory_mb: int = 256) -> dict[str, int]:
    """Return the fewest moves to the goal of every unsolved state from which there is a way, by state key.

    States that are missing are solved, dead, or have a box where no solution leads through.

    Raises:
        OracleLimitError: the table would exceed ``memory_mb``.
    """
    table = level_oracle(level, memory_mb).table
    if table is None:
        return {}
    targets, bare = set(level.targets), bytearray(level.board)
    for position in level.room:
        bare[position] = TARGET if position in targets else FLOOR
    floor, cells = list(table.floor_index), list(table.box_index)
    alive = np.flatnonzero(table.layers > 0)
    by_key = {}
    for state, moves in zip(alive.tolist(), table.layers[alive].tolist(), strict=True):
        rank, player = divmod(state, table.size)
        board = bytearray(bare)
        for index in table.subsets[rank].tolist():
            board[cells[index]] = BOX_ON_TARGET if cells[index] in targets else BOX
        board[floor[player]] = PLAYER_ON_TARGET if floor[player] in targets else PLAYER
        by_key[state_key(bytes(board))] = int(moves)
    return by_key
