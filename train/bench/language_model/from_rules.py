"""Tables of Sokoban levels and grids directly from their rules: a hundred times faster than by snapshots, and with slips."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import OracleLimitError
from creditflow.envs.sokoban.env import SokobanEnv
from creditflow.envs.sokoban.levels.xsb import parse_level
from creditflow.envs.spaces import TextSpace
from creditflow.train.bench.exact.grid_layouts import grid_cells, grid_mdp
from creditflow.train.bench.exact.gridworlds import GridEnv
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.exact.sokoban_mdp import DIRECTIONS, sokoban_boards

__all__ = ["table_from_rules"]


def table_from_rules(env: AgentEnv[Any, Any, Any], max_states: int) -> tuple[FiniteMDP, Iterator[Any]] | None:
    """The environment's present task as a table, and the observation of each acting state.

    Returns:
        None for other environments, which are tabulated by snapshots.

    Raises:
        OracleLimitError: more than ``max_states`` states.
    """
    if isinstance(env, GridEnv):
        mdp = grid_mdp(env.layout, env.max_steps)
        if mdp.size > max_states:
            raise OracleLimitError(
                f"task {env.task.task_id}: more than {max_states} states can be reached; raise the limit (--max-states)"
            )
        return mdp, (env.layout.draw(cell) for cell in grid_cells(env.layout)[0])
    if isinstance(env, SokobanEnv) and env.action_space == TextSpace(DIRECTIONS):
        level = parse_level(str(env.task.content["xsb"]))
        mdp, boards = sokoban_boards(level, env.max_steps, cap=max_states)
        return mdp, (env.observe_board(board, level.width) for board in boards[: mdp.size])
    return None
