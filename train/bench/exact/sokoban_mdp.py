"""Sokoban levels as a ``FiniteMDP``, computed from the rules without environment or snapshots."""

from __future__ import annotations

from creditflow.envs.sokoban.levels.xsb import Level
from creditflow.envs.sokoban.rules import direction_offsets, move, solved, state_key
from creditflow.train.bench.exact.mdp import MAX_TABLE_STATES, FiniteMDP, explore

__all__ = ["sokoban_boards", "sokoban_mdp"]

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
