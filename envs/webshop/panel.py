"""The embedded panel ``standard-v1``: the code that made it.

All goals of the embedded shop, in three splits that share no product; rows name goals by their number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from creditflow.envs.tasks import PanelRow
from creditflow.envs.webshop.catalogue.embedded import embedded_stock
from creditflow.envs.webshop.goals.tasks import GoalTasks

__all__ = ["panel_rows"]

SPLITS: Final = ("train", "train", "train", "valid", "train", "train", "test")  # by product, modulo 7


def panel_rows() -> Iterator[PanelRow]:
    """All rows in published order: train, valid, test; within a split in order of the goals."""
    stock = embedded_stock()
    tasks = GoalTasks(stock, range(len(stock.goals)))
    products = {asin: i for i, asin in enumerate(dict.fromkeys(goal.asin for goal in stock.goals))}
    rows = []
    for number, goal in enumerate(stock.goals):
        found = stock.catalogue.search(goal.instruction.lower()).asins
        rank = found.index(goal.asin) + 1 if goal.asin in found else 0
        strata = {
            "department": goal.category,
            "attributes": len(goal.attributes),
            "options": len(goal.options),
            "rank": "1" if rank == 1 else "2-10" if 1 < rank <= 10 else "11-50" if rank else "none",
        }
        split = SPLITS[products[goal.asin] % len(SPLITS)]
        rows.append(PanelRow(tasks.task(number).task_id, split, {"goal": number}, strata))
    for split in dict.fromkeys(SPLITS):
        yield from (row for row in rows if row.split == split)
