"""The embedded panels: the code that made them.

``standard-v1``: all goals of the embedded shop, in three splits that share no product; rows name goals by their number.

``small-synthetic-v1`` and ``small-human-v1``: the goals of WebShop's thousand products, made from the open instructions in the
order of the original (seed 42 for prices and price limits, 233 for the order), in the original's splits: goals 0 to 499 are
"test", 500 to 1499 "dev", the others "train". Equal goals are one row. Rows name goals by product and wish (``goals/listed.py``): no
text of the data.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from creditflow.envs.tasks import PanelRow
from creditflow.envs.webshop.catalogue.embedded import embedded_stock
from creditflow.envs.webshop.catalogue.stock import load_stock
from creditflow.envs.webshop.goals.tasks import GoalTasks, listed_locator
from creditflow.envs.webshop.presets import PRESETS
from creditflow.envs.webshop.tasks import RELEASED

__all__ = ["panel_rows", "released_rows"]

RANKS: Final = (
    (11, "11-50"),
    (2, "2-10"),
    (1, "1"),
    (0, "none"),
)  # from which rank of the wanted product on; 0: not listed
SPLITS: Final = ("train", "train", "train", "valid", "train", "train", "test")  # by product, modulo 7


def panel_rows() -> Iterator[PanelRow]:
    """All rows in published order: train, valid, test; within a split in order of the goals."""
    stock = embedded_stock()
    tasks = GoalTasks(stock, range(len(stock.goals)))
    products = {asin: i for i, asin in enumerate(dict.fromkeys(goal.asin for goal in stock.goals))}
    rows = []
    for number, goal in enumerate(stock.goals):
        asins = stock.catalogue.search(goal.instruction.lower()).asins
        rank = asins.index(goal.asin) + 1 if goal.asin in asins else 0
        strata = {
            "department": goal.category,
            "attributes": len(goal.attributes),
            "options": len(goal.options),
            "rank": next(name for least, name in RANKS if rank >= least),
        }
        split = SPLITS[products[goal.asin] % len(SPLITS)]
        rows.append(PanelRow(tasks.task(number).task_id, split, {"goal": number}, strata))
    for split in dict.fromkeys(SPLITS):
        yield from (row for row in rows if row.split == split)


def released_rows(folder: Path, name: str) -> Iterator[PanelRow]:
    """Yield the rows of a panel of ``RELEASED``: test, dev, train; within a split in order of the goals.

    Raises:
        DataError: malformed files.
    """
    stock = load_stock(folder, goals=RELEASED[name], strict=True)
    tasks, preset, seen = GoalTasks(stock, range(len(stock.goals))), PRESETS["upstream"], set[str]()
    for split in preset.splits:
        for number in range(len(stock.goals))[preset.goal_range(split)]:
            goal, task_id = stock.goals[number], tasks.task(number).task_id
            if task_id not in seen:
                seen.add(task_id)
                strata = {"department": goal.category, "attributes": len(goal.attributes), "options": len(goal.options)}
                yield PanelRow(task_id, split, listed_locator(goal), strata)
