"""Goals of panels of released data: named by product and wish, with the price limit that the panel gives.

In the original a goal's number and price limit come from one random stream over the whole catalogue, so that a file with one more
instruction, or a worker with another seed, has other goals under the same numbers. A panel's row names the product, the wish (a
hash of instruction, attributes and options) and the limit in dollars. So its id is the same goal in every copy of the products,
whatever its order of goals and whichever other instructions it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from creditflow.envs.errors import DataError, short_repr
from creditflow.envs.tasks import PanelRow, RowTasks, Task, content_id
from creditflow.envs.webshop.catalogue.stock import Stock
from creditflow.envs.webshop.goals.goals import Goal, cap_words
from creditflow.envs.webshop.goals.tasks import GoalTasks, goal_content, is_price

__all__ = ["ListedGoals", "listed_locator", "wish_hash"]

LOCATOR_KEYS: Final = {"asin", "wish", "cap"}
HASH_LENGTH: Final = (
    8  # hex digits; tells the wishes of one product apart, while the task id verifies all of the content
)


def wish_hash(goal: Goal) -> str:
    """Return the hash of a goal without its price limit."""
    wish = goal.instruction.removesuffix(cap_words(goal.price_cap))
    options = [list(option) if goal.named_options else option for option in goal.options]
    return content_id("", [wish, list(goal.attributes), options])[1 : 1 + HASH_LENGTH]


def listed_locator(goal: Goal) -> dict[str, Any]:
    """Return the locator of a goal."""
    return {"asin": goal.asin, "wish": wish_hash(goal), "cap": goal.price_cap}


class ListedGoals(RowTasks):
    """A ``TaskSource`` over the goals of a panel.

    Args:
        stock: catalogue and goals, in any order and with any price limits.
        rows: rows of the panel.

    Raises:
        ConfigError: no rows.
        DataError: the stock does not have the first row's goal, so it is another catalogue.
    """

    def __init__(self, stock: Stock, rows: Sequence[PanelRow]) -> None:
        self.stock = stock
        self._all = GoalTasks(stock, range(len(stock.goals)))
        super().__init__("webshop", rows, self._task_of)
        self.get(self.rows[0].task_id)

    @property
    def numbers(self) -> range:
        """Positions of the goals in the panel."""
        return range(len(self.rows))

    def _task_of(self, content: Any) -> Task:
        if not isinstance(content, Mapping) or set(content) != LOCATOR_KEYS:
            return self._all.from_content(content)
        if not isinstance(content["asin"], str) or not is_price(content["cap"]):
            raise DataError(
                f"webshop: a goal's locator has a value of the wrong type: {short_repr(dict(content), 300)}"
            )
        stored = goal_content(self._goal(content), self.stock.catalogue.digest)
        task_id = content_id("webshop1", stored)
        return Task(task_id, task_id, stored)

    def _goal(self, locator: Mapping[str, Any]) -> Goal:
        asin, cap = locator["asin"], float(locator["cap"])
        for goal in self.stock.goals_of(asin):
            if wish_hash(goal) == locator["wish"]:
                instruction = goal.instruction.removesuffix(cap_words(goal.price_cap)) + cap_words(cap)
                return replace(goal, instruction=instruction, price_cap=cap)
        raise DataError(f"webshop: the data has no goal {locator['wish']} of the product {short_repr(asin, 20)}")
