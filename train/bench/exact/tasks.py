"""Tasks as exact tables, by kind: the grids, and Sokoban levels by the share of dead states.

Only tasks whose reachable states fit a table take part; what is left out is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Final

import numpy as np

from creditflow.envs.errors import OracleLimitError
from creditflow.envs.registration import make
from creditflow.envs.sokoban.levels import parse_level
from creditflow.envs.tasks import load_panel
from creditflow.train.bench.exact.grid_layouts import KINDS, grid_mdp, read_layout
from creditflow.train.bench.exact.gridworlds import HORIZON, grid_tasks
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.exact.sokoban_mdp import sokoban_mdp

__all__ = ["GRID_BLOCK", "MOST_STATES", "SOKOBAN_KINDS", "exact_kinds", "exact_tasks", "grid_seed"]

SOKOBAN_KINDS: Final = ("sokoban-few", "sokoban-some", "sokoban-many")  # by the share of dead states
BOUNDS: Final = (0.5, 0.75)  # of the share of dead states: below, between, above
SOKOBAN_HORIZON: Final = 30
MOST_STATES: Final = 1500  # of a table: larger ones would be exact too, for many policies they take too long
GRID_BLOCK: Final = 32  # grid tasks of one seed
LOOKED_AT: Final = 48  # levels of a person's own file that are tried
FEWEST: Final = 4  # levels of a file that must fit
WITHOUT_TABLES: Final = {
    "alfworld": "its actions differ from state to state, and a house has too many states for a table",
    "webshop": "its searches are free text, so its states cannot be listed",
    "wikisearch": "its queries are free text, so its states cannot be listed",
}


def exact_kinds(spec: str) -> tuple[tuple[str, ...], str]:
    """Kinds of exact tasks that a suite holds; or none, and why."""
    if spec == "grids":
        return KINDS, ""
    if spec == "sokoban":
        return SOKOBAN_KINDS, ""
    name, _, path = spec.partition("@")
    if name != "sokoban":
        return (), WITHOUT_TABLES.get(name, "nobody has written its states out as a table")
    fitting, tried = _own_levels(path)
    if len(fitting) < FEWEST:
        return (), f"only {len(fitting)} of {tried} levels looked at fit a table of {MOST_STATES} states"
    return tuple(kind for kind in SOKOBAN_KINDS if any(_kind(mdp) == kind for mdp in fitting)), ""


def exact_tasks(spec: str, kind: str, seed: int) -> Iterator[FiniteMDP]:
    """Tasks of a kind: grids without end, Sokoban levels once each, in an order that depends on ``seed``."""
    if spec == "grids":
        yield from _grids(kind, seed)
        return
    rng = np.random.default_rng([seed, SOKOBAN_KINDS.index(kind)])
    if spec != "sokoban":
        chosen = [mdp for mdp in _own_levels(spec.partition("@")[2])[0] if _kind(mdp) == kind]
        yield from (chosen[i] for i in rng.permutation(len(chosen)).tolist())
        return
    wanted = kind.removeprefix("sokoban-")
    rows = [row for row in load_panel("sokoban", "standard-v1").rows if str(row.strata["stratum"]).endswith(wanted)]
    for place in rng.permutation(len(rows)).tolist():
        mdp = _table(str(rows[place].locator["xsb"]), rows[place].task_id)
        if mdp is not None:
            yield mdp


def grid_seed(seed: int, block: int = 0) -> int:
    """Seed of a block of grid tasks: sources of growing index ranges would repeat work."""
    return seed * 1_000_003 + block


def _grids(kind: str, seed: int) -> Iterator[FiniteMDP]:
    block = 0
    while True:
        source = grid_tasks(kind, grid_seed(seed, block), GRID_BLOCK)
        for task_id in source.task_ids():
            yield grid_mdp(read_layout(dict(source.get(task_id).content)), HORIZON)
        block += 1


@lru_cache(maxsize=2)
def _own_levels(path: str) -> tuple[tuple[FiniteMDP, ...], int]:
    """Levels of a file that fit, evenly spread over it, and how many were tried."""
    tasks = make("sokoban", levels=path).unwrapped.tasks  # type: ignore[attr-defined]  # every AgentEnv has tasks
    ids = tasks.task_ids()
    tried = [ids[i * len(ids) // LOOKED_AT] for i in range(LOOKED_AT)] if len(ids) > LOOKED_AT else ids
    tables = [_table(str(tasks.get(task_id).content["xsb"]), task_id) for task_id in tried]
    return tuple(mdp for mdp in tables if mdp is not None), len(tried)


def _table(xsb: str, name: str) -> FiniteMDP | None:
    try:
        return replace(sokoban_mdp(parse_level(xsb), SOKOBAN_HORIZON, cap=MOST_STATES), name=name)
    except OracleLimitError:  # the page says how many levels are meant
        return None


def _kind(mdp: FiniteMDP) -> str:
    return SOKOBAN_KINDS[int(np.searchsorted(BOUNDS, mdp.dead_share, side="right"))]
