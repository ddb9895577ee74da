"""Tasks as exact tables, by kind: the grids, and Sokoban levels by their fraction of dead states.

Only tasks with at most ``MAX_STATES`` reachable states are included; the report states how many levels are. Levels are tabulated from
the rules, without environment or snapshots.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Final

import numpy as np

from creditflow.envs.errors import OracleLimitError
from creditflow.envs.sokoban.env import SokobanEnv
from creditflow.envs.sokoban.levels.xsb import Level, parse_level
from creditflow.envs.sokoban.rules import direction_offsets, move, solved, state_key
from creditflow.envs.tasks import load_panel
from creditflow.train.bench.exact.grid_layouts import HORIZON, KINDS, GridLayout, generate_layout, grid_mdp
from creditflow.train.bench.exact.mdp import MAX_TABLE_STATES, FiniteMDP, explore

__all__ = [
    "GRID_BLOCK",
    "MAX_STATES",
    "SOKOBAN_HORIZON",
    "SOKOBAN_KINDS",
    "exact_kinds",
    "exact_tasks",
    "grid_layouts",
    "sokoban_boards",
    "sokoban_mdp",
    "table_horizon",
]

SOKOBAN_KINDS: Final = ("sokoban-few", "sokoban-some", "sokoban-many")  # by the fraction of dead states
DEAD_STATE_BOUNDS: Final = (0.5, 0.75)  # between few and some, between some and many
SOKOBAN_HORIZON: Final = 30
MAX_STATES: Final = 1500  # per table; larger tables would take too long for many policies
GRID_BLOCK: Final = 32  # grid tasks per seed
MAX_LEVELS_TRIED: Final = 48  # of a user's own file
MIN_LEVELS: Final = 4  # of a file that must fit
WITHOUT_TABLES: Final = {
    "alfworld": "its actions differ from state to state, and its tasks have too many states for a table",
    "webshop": "its searches are free text, so its states cannot be listed",
    "wikisearch": "its queries are free text, so its states cannot be listed",
}


def exact_kinds(spec: str) -> tuple[tuple[str, ...], str]:
    """The kinds of exact tasks in a suite, and the reason if there are none ("" otherwise)."""
    if spec == "grids":
        return KINDS, ""
    if spec == "sokoban":
        return SOKOBAN_KINDS, ""
    name, _, path = spec.partition("@")
    if name != "sokoban":
        return (), WITHOUT_TABLES.get(name, "its states are not available as a table")
    fitting, tried = _own_levels(path)
    if len(fitting) < MIN_LEVELS:
        return (), f"only {len(fitting)} of the {tried} levels tried fit a table of {MAX_STATES} states"
    kinds = set(map(_kind, fitting))
    return tuple(kind for kind in SOKOBAN_KINDS if kind in kinds), ""


def table_horizon(spec: str) -> int:
    """The turn limit of a suite's exact tasks."""
    return HORIZON if spec == "grids" else SOKOBAN_HORIZON


def exact_tasks(spec: str, kind: str, seed: int) -> Iterator[FiniteMDP]:
    """Yield tasks of a kind: grids endlessly, Sokoban levels once each, in an order that depends on ``seed``."""
    if spec == "grids":
        yield from (grid_mdp(layout, HORIZON) for layout in grid_layouts(kind, seed))
        return
    rng = np.random.default_rng([seed, SOKOBAN_KINDS.index(kind)])
    if spec != "sokoban":
        chosen = [mdp for mdp in _own_levels(spec.partition("@")[2])[0] if _kind(mdp) == kind]
        yield from (chosen[i] for i in rng.permutation(len(chosen)).tolist())
        return
    stratum = kind.removeprefix("sokoban-")
    rows = [row for row in load_panel("sokoban", "standard-v1").rows if str(row.strata["stratum"]).endswith(stratum)]
    for i in rng.permutation(len(rows)).tolist():
        mdp = _table(str(rows[i].locator["xsb"]), rows[i].task_id)
        if mdp is not None:
            yield mdp


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


@lru_cache(maxsize=2)
def _own_levels(path: str) -> tuple[tuple[FiniteMDP, ...], int]:
    """The levels of a file that fit, among levels at even intervals, and how many were tried."""
    tasks = SokobanEnv(levels=path).tasks
    ids = tasks.task_ids()
    tried = (
        [ids[i * len(ids) // MAX_LEVELS_TRIED] for i in range(MAX_LEVELS_TRIED)] if len(ids) > MAX_LEVELS_TRIED else ids
    )
    tables = [_table(str(tasks.get(task_id).content["xsb"]), task_id) for task_id in tried]
    return tuple(mdp for mdp in tables if mdp is not None), len(tried)


def _table(xsb: str, name: str) -> FiniteMDP | None:
    try:
        return replace(sokoban_mdp(parse_level(xsb), SOKOBAN_HORIZON, cap=MAX_STATES), name=name)
    except OracleLimitError:  # the report states how many levels fit
        return None


def _kind(mdp: FiniteMDP) -> str:
    return SOKOBAN_KINDS[int(np.searchsorted(DEAD_STATE_BOUNDS, mdp.dead_state_fraction, side="right"))]


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
