"""Construction of the embedded panel ``standard-v1``.

420 generated levels: four ranges of exact solution length times three ranges of the fraction of dead states, with 35
levels each, 25 for training, 5 for validation, 5 for testing; no two are equal up to rotation and reflection.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from creditflow.envs.sokoban.levels.generator import GeneratorOptions, generate_level
from creditflow.envs.sokoban.levels.xsb import Level, level_task
from creditflow.envs.sokoban.oracle import dead_state_fraction, level_oracle
from creditflow.envs.tasks import PanelRow

__all__ = ["DEAD_BOUNDS", "LENGTH_RANGES", "level_strata", "panel_rows", "stratum_rows"]

SEED: Final = 20_261_121
# (fewest moves, most moves, (side, boxes) of the levels, which alternate)
LENGTH_RANGES: Final = (
    (3, 7, ((6, 1), (6, 2), (7, 2), (8, 2))),
    (8, 12, ((6, 1), (6, 2), (7, 2), (8, 2), (8, 3))),
    (13, 16, ((6, 2), (7, 2), (8, 2), (8, 3))),
    (17, 20, ((6, 2), (7, 2), (8, 2), (8, 3))),
)
DEAD_BOUNDS: Final = (0.5, 0.75)  # few, some, many dead states
DEAD_NAMES: Final = ("few", "some", "many")
SPLITS: Final = ("train", "train", "train", "train", "train", "valid", "test")  # by index in the stratum, modulo 7
PER_STRATUM: Final = 35


def level_strata(level: Level) -> dict[str, Any]:
    """Return the strata of a level's row: size, boxes, exact solution length, fraction of dead states, stratum."""
    length = level_oracle(level).moves_left(level.player, level.boxes)
    dead = dead_state_fraction(level)
    low, high = next((low, high) for low, high, _ in LENGTH_RANGES if low <= length <= high)
    density = DEAD_NAMES[sum(dead >= bound for bound in DEAD_BOUNDS)]
    return {
        "height": level.height,
        "width": level.width,
        "boxes": len(level.boxes),
        "length": length,
        "dead_share": round(dead, 4),
        "stratum": f"{low}-{high}/{density}",
    }


def stratum_rows(index: int) -> dict[str, list[tuple[str, PanelRow]]]:
    """Return the rows of one range of lengths by stratum, each with its canonical id.

    Args:
        index: index into ``LENGTH_RANGES``. As lengths differ, no level occurs in two ranges.
    """
    low, high, kinds = LENGTH_RANGES[index]
    rng = np.random.Generator(np.random.PCG64([SEED, index]))
    by_stratum: dict[str, list[tuple[str, PanelRow]]] = {f"{low}-{high}/{name}": [] for name in DEAD_NAMES}
    seen: set[str] = set()
    tried = 0
    while any(len(rows) < PER_STRATUM for rows in by_stratum.values()):
        side, boxes = kinds[tried % len(kinds)]
        tried += 1
        level = generate_level(rng, GeneratorOptions(side, side, boxes, low, high))
        task = level_task(level)
        if task.canonical_id in seen:
            continue
        strata = level_strata(level)
        rows = by_stratum[strata["stratum"]]
        if len(rows) < PER_STRATUM:
            seen.add(task.canonical_id)
            split = SPLITS[len(rows) % len(SPLITS)]
            rows.append((task.canonical_id, PanelRow(task.task_id, split, dict(task.content), strata)))
    return by_stratum


def panel_rows() -> Iterator[PanelRow]:
    """Yield all rows in published order: train, valid, test; within a split, one row of each stratum at a time."""
    strata = [rows for index in range(len(LENGTH_RANGES)) for rows in stratum_rows(index).values()]
    for split in dict.fromkeys(SPLITS):
        for index in range(PER_STRATUM):
            yield from (rows[index][1] for rows in strata if rows[index][1].split == split)
