"""The tasks of the suite: grids and Sokoban levels as tables, with what the policy sees of each state.

Kinds: the four kinds of grid; ``fresh``, the grids of ``pits`` with state keys that never repeat (like a key that includes the
history, which no two episodes share after their first turn); and ``sokoban``, the panel's levels with few states.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import DataError, OracleLimitError, unknown_name_error
from creditflow.envs.sokoban.levels.xsb import parse_level
from creditflow.envs.tasks import load_panel
from creditflow.train.bench.exact.grid_layouts import KINDS, grid_mdp
from creditflow.train.bench.exact.gridworlds import HORIZON
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.exact.sokoban_mdp import sokoban_mdp
from creditflow.train.bench.exact.tasks import GRID_BLOCK, SOKOBAN_HORIZON, grid_layouts
from creditflow.train.bench.shared.views import grid_parts, sokoban_parts

__all__ = ["SHARED_KINDS", "ViewedTask", "viewed_tasks"]

SHARED_KINDS: Final = (*KINDS, "fresh", "sokoban")
MAX_STATES: Final = 300  # of one Sokoban level


class ViewedTask(NamedTuple):
    """A task and what the policy sees of it.

    Attributes:
        mdp: the task as tables.
        parts: int64 (S, K), the parts of each acting state's observation.
    """

    mdp: FiniteMDP
    parts: NDArray[np.int64]


def viewed_tasks(kind: str, seed: int, unit: int, count: int) -> list[ViewedTask]:
    """The tasks of one layout seed: different grids for every layout seed, or Sokoban levels resampled from one panel.

    Args:
        kind: one of ``SHARED_KINDS``.
        seed: seed of the benchmark.
        unit: number of the layout seed.
        count: number of tasks.

    Raises:
        ConfigError: the kind is unknown.
        DataError: there are fewer tasks.
    """
    if kind not in SHARED_KINDS:
        raise unknown_name_error("kind of task", kind, SHARED_KINDS)
    found = list(islice(_tasks(kind, seed, unit, count), count))
    if len(found) < count:
        raise DataError(
            f"kind {kind}: {count} tasks were requested, but only {len(found)} have at most {MAX_STATES} states; use fewer "
            "training or held-out tasks, or a smaller batch"
        )
    return found


def _tasks(kind: str, seed: int, unit: int, count: int) -> Iterator[ViewedTask]:
    if kind == "sokoban":
        levels = _levels()
        for i in np.random.default_rng([seed, unit]).permutation(len(levels)).tolist():
            yield levels[i]
        return
    first_block = unit * -(-count // GRID_BLOCK)
    for layout in grid_layouts("pits" if kind == "fresh" else kind, seed, first_block):
        mdp = grid_mdp(layout, HORIZON)
        yield ViewedTask(mdp, grid_parts(layout, mdp))


@lru_cache(maxsize=1)
def _levels() -> tuple[ViewedTask, ...]:
    """The levels of the panel that have at most ``MAX_STATES`` states."""
    found = []
    for row in load_panel("sokoban", "standard-v1").rows:
        level = parse_level(str(row.locator["xsb"]))
        try:
            mdp = replace(sokoban_mdp(level, SOKOBAN_HORIZON, cap=MAX_STATES), name=row.task_id)
        except OracleLimitError:  # a larger level
            continue
        found.append(ViewedTask(mdp, sokoban_parts(level, mdp)))
    return tuple(found)
