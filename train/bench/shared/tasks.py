"""The tasks of the suite: grids and Sokoban levels as tables, with what the policy sees of each state.

Kinds: the four kinds of grid; ``sokoban``, generated levels with few states; ``long`` and ``key`` (see ``kinds/grids.py``). ``fresh`` is ``pits``
with state keys that never repeat (like a key that includes the history, which no two episodes share after their first turn). In
``sokoban-boxes`` the text key shows the boxes only, so that one key merges all positions of the player.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import DataError, OracleLimitError, unknown_name_error
from creditflow.envs.registration import make
from creditflow.envs.sokoban.levels.xsb import parse_level
from creditflow.envs.sokoban.rules import FLOOR, PLAYER, PLAYER_ON_TARGET, TARGET, state_key
from creditflow.train.bench.exact.grid_layouts import KINDS, GridLayout, grid_mdp
from creditflow.train.bench.exact.gridworlds import HORIZON
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.exact.sokoban_mdp import sokoban_boards
from creditflow.train.bench.exact.tasks import GRID_BLOCK, SOKOBAN_HORIZON, grid_layouts
from creditflow.train.bench.shared.kinds.changes import UNCHANGED, Changes
from creditflow.train.bench.shared.kinds.grids import LONG_HORIZON, key_and_door, long_layouts
from creditflow.train.bench.shared.kinds.views import grid_parts, sokoban_parts
from creditflow.train.bench.studies import Keys

__all__ = ["SHARED_KINDS", "ViewedTask", "keys_of", "kind_of_tasks", "viewed_tasks"]

# the kinds, each with the number of its random streams
SHARED_KINDS: Final[Mapping[str, int]] = {
    **{kind: number for number, kind in enumerate(KINDS)},
    "fresh": 4,
    "sokoban": 5,
    "long": 8,
    "sokoban-boxes": 10,
    "key": 11,
}
FRESH: Final[Mapping[str, str]] = {"fresh": "pits"}
ALIASED: Final = ("alias", "sokoban-boxes")
MAX_STATES: Final = 300  # of one Sokoban level
LEVEL_SIZES: Final[tuple[Mapping[str, int], ...]] = tuple(
    {"height": side, "width": side, "boxes": boxes, "min_length": 4, "max_length": 25}
    for side, boxes in ((6, 1), (6, 2), (7, 2))
)
WITHOUT_PLAYER: Final = bytes.maketrans(bytes([PLAYER, PLAYER_ON_TARGET]), bytes([FLOOR, TARGET]))


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
    return FRESH.get(kind, kind)


def keys_of(kind: str) -> Keys:
    """Whether each state of a kind has its own key, several states share one, or every visit has a new one."""
    if kind in ALIASED:
        return "aliased"
    return "fresh" if kind in FRESH else "distinct"


def viewed_tasks(kind: str, seed: int, unit: int, count: int, changes: Changes = UNCHANGED) -> list[ViewedTask]:
    """The tasks of one layout seed, generated from it and the benchmark's seed: others under every other one.

    Args:
        kind: one of ``SHARED_KINDS``.
        seed: seed of the benchmark.
        unit: number of the layout seed.
        count: number of tasks.
        changes: what is different from the kind's tasks.

    Raises:
        ConfigError: the kind is unknown.
        DataError: there are fewer tasks.
    """
    if kind not in SHARED_KINDS:
        raise unknown_name_error("kind of task", kind, SHARED_KINDS)
    tasks = list(islice(_tasks(kind, seed, unit, count, changes.horizon), count))
    if len(tasks) < count:
        raise DataError(
            f"kind {kind}: {count} tasks were requested, but only {len(tasks)} have at most {MAX_STATES} states; use fewer "
            "training or held-out tasks, or a smaller batch"
        )
    return [ViewedTask(changes.of(task.mdp), task.parts) for task in tasks]


def _tasks(kind: str, seed: int, unit: int, count: int, horizon: int) -> Iterator[ViewedTask]:
    kind = kind_of_tasks(kind)
    if kind.startswith("sokoban"):
        limit = max(horizon, SOKOBAN_HORIZON)  # states beyond it are not in the tables
        yield from _levels(seed, unit, count, limit, boxes_only=kind == "sokoban-boxes")
    elif kind == "long":
        for layout in long_layouts(seed, unit):
            mdp = grid_mdp(layout, LONG_HORIZON)
            yield ViewedTask(mdp, grid_parts(layout, mdp))
    elif kind == "key":
        for layout in _layouts("pits", seed, unit, 2 * count):  # at least two thirds of the layouts have room for a key
            changed = key_and_door(layout)
            if changed is not None:
                yield ViewedTask(*changed)
    else:
        for layout in _layouts(kind, seed, unit, count):
            mdp = grid_mdp(layout, HORIZON)
            yield ViewedTask(mdp, grid_parts(layout, mdp))


def _layouts(kind: str, seed: int, unit: int, count: int) -> Iterator[GridLayout]:
    """Yield the layouts of one layout seed; the first ``count`` of them occur under no other layout seed."""
    return grid_layouts(kind, seed, unit * -(-count // GRID_BLOCK))


@lru_cache(maxsize=16)
def _levels(seed: int, unit: int, count: int, horizon: int, *, boxes_only: bool) -> tuple[ViewedTask, ...]:
    """Generated levels of several sizes with at most ``MAX_STATES`` states, no two of them equal up to symmetry."""
    rng = np.random.default_rng([seed, unit])
    sources = [
        cast(
            "AgentEnv[Any, Any, Any]", make("sokoban", generator=dict(size), max_steps=SOKOBAN_HORIZON).unwrapped
        ).tasks
        for size in LEVEL_SIZES
    ]
    tasks: list[ViewedTask] = []
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
        texts = mdp.keys[: mdp.size]
        if boxes_only:
            texts = tuple(state_key(board.translate(WITHOUT_PLAYER)) for board in boards[: mdp.size])
        mdp = replace(mdp, name=task.task_id, text_keys=texts + mdp.keys[mdp.size :])
        tasks.append(ViewedTask(mdp, sokoban_parts(level, mdp)))
    return tuple(tasks)
