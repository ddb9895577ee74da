"""WebShop's tasks: the goals of a stock, named by the hash of their content and the catalogue's digest.

Ids are computed on demand: a stock may have millions of goals.

Goals of panels of released data are named by product and wish, with the price limit that the panel gives. In the original a
goal's number and price limit come from one random stream over the whole catalogue, so that a file with one more instruction,
or a worker with another seed, has other goals under the same numbers. A panel's row names the product, the wish (a hash of
instruction, attributes and options) and the limit in dollars. So its id is the same goal in every copy of the products,
whatever its order of goals and whichever other instructions it has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from creditflow.envs.errors import ConfigError, DataError, UnknownTaskError, short_repr
from creditflow.envs.reading.checked import is_string_list
from creditflow.envs.tasks import PanelRow, RowTasks, Task, content_id, sample_index
from creditflow.envs.webshop.catalogue.stock import Stock
from creditflow.envs.webshop.goals.goals import Goal, cap_words

__all__ = [
    "LIMIT",
    "GoalTasks",
    "ListedGoals",
    "content_wish",
    "goal_content",
    "goal_from_content",
    "is_goal_content",
    "is_price",
    "listed_locator",
    "wish_hash",
]

MAX_PRICE: Final = 1e15  # larger amounts are not exact in dollars and cents
_KEYS: Final = {"catalogue", "asin", "instruction", "attributes", "price_cap", "options"}


def goal_content(goal: Goal, catalogue_digest: str) -> dict[str, Any]:
    """The content of a goal's task, as JSON values."""
    return {
        "catalogue": catalogue_digest,
        "asin": goal.asin,
        "instruction": goal.instruction,
        "attributes": list(goal.attributes),
        "price_cap": float(goal.price_cap),
        "options": [list(option) if goal.named_options else option for option in goal.options],
    }


def is_price(value: Any) -> bool:
    """Whether a value of a content is a price limit."""
    return type(value) in (int, float) and 0 <= value <= MAX_PRICE


def goal_from_content(content: Any, stock: Stock) -> Goal:
    """The goal of a content.

    Raises:
        DataError: a key is missing or of the wrong type, or the content belongs to another catalogue.
    """
    if not isinstance(content, Mapping) or set(content) != _KEYS:
        raise DataError(
            f"webshop: a task is {{'goal': number}} or has the keys {sorted(_KEYS)}, got {short_repr(content, 200)}"
        )
    options = content["options"]
    named = isinstance(options, list) and all(is_string_list(option) and len(option) == 2 for option in options)
    if not (
        isinstance(content["asin"], str)
        and isinstance(content["instruction"], str)
        and is_string_list(content["attributes"])
        and is_price(content["price_cap"])
        and (named or is_string_list(options))
    ):
        raise DataError(f"webshop: a task's content has a value of the wrong type: {short_repr(content, 300)}")
    if content["catalogue"] != stock.catalogue.digest:
        raise DataError(
            f"webshop: the task belongs to the catalogue {short_repr(content['catalogue'], 40)}, this environment has "
            f"{stock.catalogue.digest!r}; open it with the same data and seed"
        )
    try:
        product = stock.catalogue.product(content["asin"])
    except KeyError as error:
        raise DataError(f"webshop: the catalogue has no product {content['asin'][:40]!r}") from error
    return Goal(
        product.asin,
        product.category,
        product.query,
        product.title,
        product.product_category,
        content["instruction"],
        tuple(content["attributes"]),
        float(content["price_cap"]),
        tuple(tuple(option) for option in options) if named else tuple(options),
        named_options=named,
    )


class GoalTasks:
    """A ``TaskSource`` over some goals of a stock.

    Args:
        stock: catalogue and goals.
        numbers: the numbers of the goals, in order.
        rows: rows of the panel that lists these goals, if one does.

    Raises:
        ConfigError: there are no numbers.
    """

    def __init__(self, stock: Stock, numbers: Sequence[int], rows: Sequence[PanelRow] = ()) -> None:
        if not len(numbers):
            raise ConfigError(f"webshop: none of {len(stock.goals)} goals is left; choose another split or filter")
        self.stock, self.numbers, self.rows = stock, numbers, tuple(rows)
        self._known: dict[str, int] = {}  # ids of tasks made so far -> number of the first goal that is this task
        self._all_known = False

    def task(self, number: int) -> Task:
        """The task of goal ``number``."""
        goal = self.stock.goals[number]
        content = goal_content(goal, self.stock.catalogue.digest)
        task_id = content_id("webshop1", content)
        if task_id not in self._known:
            self._known[task_id] = self.stock.number_of(goal)
        return Task(task_id, task_id, content)

    def number_of(self, task_id: str) -> int:
        """The goal number of a task that this source has made (the first of equal goals); -1 for any other task."""
        return self._known.get(task_id, -1)

    def sample(self, rng: np.random.Generator) -> Task:
        """A uniformly sampled goal."""
        return self.task(int(self.numbers[sample_index(rng, len(self.numbers))]))

    def get(self, task_id: str) -> Task:
        """The goal with this id. The first call with an unknown id hashes all goals.

        Raises:
            UnknownTaskError: this source does not hold it.
        """
        if task_id not in self._known and not self._all_known:
            self.task_ids()
            self._all_known = True
        if task_id not in self._known:
            raise UnknownTaskError(
                f"webshop: task {short_repr(task_id)} is not among the {len(self.numbers)} goals of this source; open the "
                "environment with the data, goals, seed and split it comes from, or give its content too: "
                "reset(options={'task_id': …, 'task': …})"
            )
        return self.task(self._known[task_id])

    def from_content(self, content: Any) -> Task:
        """The task of a content, or of ``{"goal": number}``, the goal's number in the whole list.

        Raises:
            DataError: malformed, of another catalogue, or no such goal.
        """
        if isinstance(content, Mapping) and set(content) == {"goal"}:
            number = content["goal"]
            if type(number) is not int or not 0 <= number < len(self.stock.goals):
                raise DataError(
                    f"webshop: goal must be a number from 0 to {len(self.stock.goals) - 1}, got {short_repr(number)}"
                )
            return self.task(number)
        goal = goal_from_content(content, self.stock)
        cleaned = goal_content(goal, self.stock.catalogue.digest)
        task_id = content_id("webshop1", cleaned)
        return Task(task_id, task_id, cleaned)

    def task_ids(self) -> tuple[str, ...]:
        """All ids in order."""
        return tuple(self.task(int(number)).task_id for number in self.numbers)


LOCATOR_KEYS: Final = {"asin", "wish", "cap"}
HASH_LENGTH: Final = (
    8  # hex digits; tells the wishes of one product apart, while the task id verifies all of the content
)


LIMIT: Final = re.compile(
    re.escape(cap_words(0.0)).replace(re.escape("0.00"), r"\d+\.\d\d")
)  # the price limit in a text


def wish_hash(goal: Goal) -> str:
    """Return the hash of a goal without its price limit."""
    return content_wish(goal_content(goal, ""))


def content_wish(content: Mapping[str, Any]) -> str:
    """Return the hash of a goal's content without its price limit and catalogue."""
    wish = content["instruction"].removesuffix(cap_words(content["price_cap"]))
    return content_id("", [wish, content["attributes"], content["options"]])[1 : 1 + HASH_LENGTH]


def is_goal_content(content: Mapping[str, Any]) -> bool:
    """Whether a task of any environment has the form of a goal's content."""
    return content.keys() == _KEYS and isinstance(content["instruction"], str) and is_price(content["price_cap"])


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
