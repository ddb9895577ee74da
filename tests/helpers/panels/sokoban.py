"""Construction of the embedded panels; no two levels of a panel are equal up to rotation and reflection.

``standard-v1``: 420 generated levels, four ranges of exact solution length times three ranges of the fraction of dead states,
with 35 levels each, 25 for training, 5 for validation, 5 for testing.

``small-v1``: easy levels for small models and quick experiments, 480 of 6 by 6 cells with one box, in four ranges of exact
solution length; none is in ``standard-v1``.

``easy-v1``, ``paper-6x6-v1``, ``paper-8x8-v1``: the papers on agents in Sokoban play levels that gym-sokoban generates, one
box on 6 by 6 or 8 by 8 cells, and publish no list of them. The paper panels are such lists: consecutive seeds of the same
distribution, without levels that are equal up to rotation and reflection to an earlier one or to one of the other panels, so
that held-out levels are held out. (That takes away more short levels than long ones, of which there are more.) The easy
panel has levels of at most five moves. Every row has the name from which the level can be generated again (see
``levels/named.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any, Final

import numpy as np

from creditflow.envs.sokoban.levels.generator import GeneratorOptions, generate_level
from creditflow.envs.sokoban.levels.named import named_level
from creditflow.envs.sokoban.levels.xsb import Level, level_task
from creditflow.envs.sokoban.oracle import dead_state_fraction, level_oracle
from creditflow.envs.sokoban.tasks import build_task
from creditflow.envs.tasks import PanelRow, load_panel

__all__ = [
    "DEAD_BOUNDS",
    "GYM_PANELS",
    "LENGTH_RANGES",
    "SMALL_RANGES",
    "gym_panel_rows",
    "level_strata",
    "panel_rows",
    "small_rows",
    "stratum_rows",
]

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


SMALL_SEED: Final = 20_261_122
SIDE: Final = 6
SMALL_RANGES: Final = ((2, 3), (4, 5), (6, 8), (9, 12))
# rows of each split, per range of lengths
SMALL_COUNTS: Final = {"train": 32, "valid": 24, "test": 64}


def small_rows() -> Iterator[PanelRow]:
    """Yield all rows in published order: train, valid, test; within a split, one row of each range at a time."""
    seen = {build_task(row.locator).canonical_id for row in load_panel("sokoban", "standard-v1").rows}
    ranges = [_range_rows(low, high, np.random.Generator(np.random.PCG64([SMALL_SEED, low])), seen)
              for low, high in SMALL_RANGES]  # fmt: skip
    start = 0
    for split, per_range in SMALL_COUNTS.items():
        for index in range(start, start + per_range):
            for rows in ranges:
                task_id, content, strata = rows[index]
                yield PanelRow(task_id, split, content, strata)
        start += per_range


def _range_rows(
    low: int, high: int, rng: np.random.Generator, seen: set[str]
) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Return (task id, content, strata) of levels with solutions of ``low`` to ``high`` moves, for all splits."""
    rows: list[tuple[str, dict[str, Any], dict[str, Any]]] = []
    while len(rows) < sum(SMALL_COUNTS.values()):
        level = generate_level(rng, GeneratorOptions(SIDE, SIDE, 1, low, high))
        task = level_task(level)
        if task.canonical_id in seen:
            continue
        seen.add(task.canonical_id)
        length = level_oracle(level).moves_left(level.player, level.boxes)
        strata = {"length": length, "dead_share": round(dead_state_fraction(level), 4), "stratum": f"{low}-{high}"}
        rows.append((task.task_id, dict(task.content), strata))
    return rows


# Names of the levels, which alternate, without the seed; in the order in which the panels avoid each other's levels.
GYM_PANELS: Final[Mapping[str, tuple[str, ...]]] = {
    "easy-v1": ("exact/5x5/1/1-5", "exact/6x6/1/1-5"),
    "paper-6x6-v1": ("gym_sokoban/6x6/1/1-30000",),
    "paper-8x8-v1": ("gym_sokoban/8x8/1/1-30000",),
}
EARLIER: Final = ("standard-v1", "small-v1")
COUNTS: Final[Mapping[str, Mapping[str, int]]] = {
    "easy-v1": {"train": 128, "valid": 64, "test": 128},
    "paper-6x6-v1": {"train": 512, "valid": 128, "test": 256},
    "paper-8x8-v1": {"train": 512, "valid": 128, "test": 256},
}
RANGES: Final = ((1, 3), (4, 5), (6, 8), (9, 12), (13, 20))


def gym_panel_rows(panel: str) -> Iterator[PanelRow]:
    """Yield the rows of a panel in published order.

    Args:
        panel: a key of ``GYM_PANELS``.
    """
    seen = set()
    for earlier in (*EARLIER, *list(GYM_PANELS)[: list(GYM_PANELS).index(panel)]):
        seen |= {build_task(row.locator).canonical_id for row in load_panel("sokoban", earlier).rows}
    seeds, kinds = count(), GYM_PANELS[panel]
    for split, target in COUNTS[panel].items():
        rows_made = 0
        while rows_made < target:
            seed = next(seeds)
            name = f"{kinds[seed % len(kinds)]}/{seed}"
            level = named_level(name)
            task = level_task(level)
            length = level_oracle(level).moves_left(level.player, level.boxes)
            if task.canonical_id in seen or length > RANGES[-1][1]:
                continue
            seen.add(task.canonical_id)
            rows_made += 1
            low, high = next((low, high) for low, high in RANGES if low <= length <= high)
            strata: dict[str, Any] = {
                "length": length, "dead_share": round(dead_state_fraction(level), 4), "stratum": f"{low}-{high}", "name": name,
            }  # fmt: skip
            yield PanelRow(task.task_id, split, dict(task.content), strata)
