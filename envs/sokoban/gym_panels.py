"""Construction of the embedded panels ``easy-v1``, ``paper-6x6-v1`` and ``paper-8x8-v1``.

The papers on agents in Sokoban play levels that gym-sokoban generates, one box on 6 by 6 or 8 by 8 cells, and publish no list
of them. The paper panels are such lists: consecutive seeds of the same distribution, without levels that are equal up to
rotation and reflection to an earlier one or to one of the other panels, so that held-out levels are held out. (That takes
away more short levels than long ones, of which there are more.) The easy panel has levels of at most five moves.

Every row has the name from which the level can be generated again (see ``levels/named.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any, Final

from creditflow.envs.sokoban.levels.named import named_level
from creditflow.envs.sokoban.levels.xsb import level_task
from creditflow.envs.sokoban.oracle import dead_state_fraction, level_oracle
from creditflow.envs.sokoban.tasks import build_task
from creditflow.envs.tasks import PanelRow, load_panel

__all__ = ["GYM_PANELS", "gym_panel_rows"]

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
