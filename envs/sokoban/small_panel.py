"""Construction of the embedded panel ``small-v1``: easy levels for small models and quick experiments.

480 generated levels of 6 by 6 cells with one box, in four ranges of exact solution length; no two are equal up to
rotation and reflection, and none is in ``standard-v1``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from creditflow.envs.sokoban.levels.generator import GeneratorOptions, generate_level
from creditflow.envs.sokoban.levels.xsb import level_task
from creditflow.envs.sokoban.oracle import dead_state_fraction, level_oracle
from creditflow.envs.sokoban.tasks import build_task
from creditflow.envs.tasks import PanelRow, load_panel

__all__ = ["SMALL_RANGES", "small_rows"]

SEED: Final = 20_261_122
SIDE: Final = 6
SMALL_RANGES: Final = ((2, 3), (4, 5), (6, 8), (9, 12))
# rows of each split, per range of lengths
COUNTS: Final = {"train": 32, "valid": 24, "test": 64}


def small_rows() -> Iterator[PanelRow]:
    """Yield all rows in published order: train, valid, test; within a split, one row of each range at a time."""
    seen = {build_task(row.locator).canonical_id for row in load_panel("sokoban", "standard-v1").rows}
    ranges = [_range_rows(low, high, np.random.Generator(np.random.PCG64([SEED, low])), seen)
              for low, high in SMALL_RANGES]  # fmt: skip
    start = 0
    for split, count in COUNTS.items():
        for index in range(start, start + count):
            for rows in ranges:
                task_id, content, strata = rows[index]
                yield PanelRow(task_id, split, content, strata)
        start += count


def _range_rows(
    low: int, high: int, rng: np.random.Generator, seen: set[str]
) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Return (task id, content, strata) of levels with solutions of ``low`` to ``high`` moves, for all splits."""
    rows: list[tuple[str, dict[str, Any], dict[str, Any]]] = []
    while len(rows) < sum(COUNTS.values()):
        level = generate_level(rng, GeneratorOptions(SIDE, SIDE, 1, low, high))
        task = level_task(level)
        if task.canonical_id in seen:
            continue
        seen.add(task.canonical_id)
        length = level_oracle(level).moves_left(level.player, level.boxes)
        strata = {"length": length, "dead_share": round(dead_state_fraction(level), 4), "stratum": f"{low}-{high}"}
        rows.append((task.task_id, dict(task.content), strata))
    return rows
