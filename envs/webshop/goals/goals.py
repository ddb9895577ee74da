"""Goals: an instruction and its requirements, made from products as WebShop makes them.

Synthetic goals come from a product's instruction and every combination of its options; human goals from texts that
people wrote. Prices, price caps and order replay the original's random streams, so that goal ``i`` is the original's
goal ``i``. WebShop draws them with Python's Mersenne Twister; everything else in this package uses NumPy generators.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product as combinations
from operator import attrgetter
from random import Random as Mersenne  # noqa: TID251 - the recorded goal order is this generator's stream
from typing import Any

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import DataError
from creditflow.envs.sums import sum_in_order
from creditflow.envs.webshop.catalogue.products import LoadReport, Product, wanted_attributes

__all__ = [
    "NO_CAP",
    "Goal",
    "Mersenne",
    "attribute_weight",
    "cap_words",
    "human_goal",
    "human_goals",
    "price_cap",
    "price_table",
    "shuffled_numbers",
    "synthetic_goal",
    "synthetic_goals",
    "usable_human_entries",
]

NO_CAP = 1000000.0
PRICE_CAPS = range(10, 1000, 10)


@dataclass(frozen=True, slots=True)
class Goal:
    """An instruction and its requirements.

    Attributes:
        asin: the product it was made from.
        category, query, name, product_category: those of that product.
        instruction: the text that the agent receives.
        attributes: wanted attributes.
        price_cap: highest acceptable price in dollars.
        options: wanted options: (group, value) pairs, or plain values when ``named_options`` is False (human goals).
        weight: relative probability of being sampled.
        named_options: whether options include their group's name.
    """

    asin: str
    category: str
    query: str
    name: str
    product_category: str
    instruction: str
    attributes: tuple[str, ...]
    price_cap: float
    options: tuple[tuple[str, str], ...] | tuple[str, ...]
    weight: float = 1.0
    named_options: bool = True

    @property
    def option_values(self) -> tuple[str, ...]:
        """The wanted values, without their groups' names."""
        return tuple(option if isinstance(option, str) else option[1] for option in self.options)

    def same_task_as(self, other: Goal) -> bool:
        """Whether both are the same task: equal in everything but ``weight``, and, without options, but in how these are named."""
        if _requirements(self) != _requirements(other):
            return False
        return not self.options or self.named_options == other.named_options


_requirements = attrgetter(*(field.name for field in fields(Goal) if field.name not in {"weight", "named_options"}))


def price_table(products: Iterable[Product], rng: Mersenne) -> list[float]:
    """The price of each product for the reward, in order: its price, or a sample from its range."""
    return [p.prices[0] if len(p.prices) == 1 else rng.uniform(p.prices[0], p.prices[1]) for p in products]


def price_cap(price: float, rng: Mersenne) -> float:
    """A price cap above ``price``, or ``NO_CAP`` if fewer than two caps lie above it."""
    above = [cap for cap in PRICE_CAPS if cap > price][:4]
    return float(max(rng.sample(above, 2))) if len(above) >= 2 else NO_CAP


def cap_words(cap: float) -> str:
    """The end of an instruction that states its price limit; "" for ``NO_CAP``."""
    return "" if cap == NO_CAP else f", and price lower than {cap:.2f} dollars"


def _goal(product: Product, **fields: Any) -> Goal:
    return Goal(product.asin, product.category, product.query, product.title, product.product_category, **fields)


def synthetic_goal(
    product: Product, entry: Mapping[str, Any], values: Sequence[str], cap: float, weight: float
) -> Goal:
    """The goal for one choice of option values, given in sorted order of their groups' names."""
    pairs = tuple(zip((name for name, _ in sorted(product.options)), values, strict=True))
    wish = ", and ".join(f"{name}: {value}" for name, value in pairs)
    text = entry["instruction"] + (f" with {wish}" if wish else "") + cap_words(cap)
    attributes = tuple(entry["instruction_attributes"])
    return _goal(product, instruction=text, attributes=attributes, price_cap=cap, options=pairs, weight=weight)


def human_goal(product: Product, entry: Mapping[str, Any], cap: float) -> Goal:
    """The goal of one human instruction."""
    return _goal(
        product,
        instruction=entry["instruction"].strip(".") + cap_words(cap),
        attributes=tuple(entry["instruction_attributes"]),
        price_cap=cap,
        options=tuple(entry["instruction_options"]),
        named_options=False,
    )


def usable_human_entries(
    texts: Iterable[tuple[str, Any]], report: LoadReport, *, strict: bool = False
) -> dict[str, list[Mapping[str, Any]]]:
    """Human instructions by product id: those that name at least one attribute.

    Args:
        texts: (asin, list of {"instruction", "instruction_attributes", "instruction_options"}) pairs.
        report: counts the malformed ones, which are skipped.
        strict: raise an error instead.

    Raises:
        DataError: with ``strict``, an instruction is malformed.
    """
    usable: dict[str, list[Mapping[str, Any]]] = {}
    for asin, entries in texts:
        for entry in entries if isinstance(entries, list) else [entries]:
            problem = _human_problem(entry)
            if problem and strict:
                raise DataError(f"human instruction of {asin[:20]!r}: {problem}")
            if problem:
                report.skip(f"human instruction: {problem}", repr(asin[:20]))
            elif entry["instruction_attributes"]:
                usable.setdefault(asin, []).append(entry)
    return usable


def _human_problem(entry: Any) -> str:
    """What is wrong with a human instruction; "" if nothing."""
    if not isinstance(entry, dict) or not isinstance(entry.get("instruction"), str):
        return "no 'instruction' text"
    for key in ("instruction_attributes", "instruction_options"):
        texts = entry.get(key)
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            return f"{key!r} is not a list of strings"
    return ""


def attribute_weight(attributes: Sequence[str], carriers: Mapping[str, int]) -> float:
    """The weight of a synthetic goal: the mean of 1 / carriers over its attributes, so that rare ones count more.

    Args:
        attributes: wanted by the goal, at least one.
        carriers: attribute -> number of goals that want it.
    """
    return sum_in_order(1 / carriers[attribute] for attribute in attributes) / len(attributes)


def synthetic_goals(
    products: Iterable[Product], prices: Sequence[float], entries: Mapping[str, Any], rng: Mersenne
) -> list[Goal]:
    """One goal for every combination of options of every product that has an instruction.

    Args:
        products: the products, in catalogue order.
        prices: prices of the products, in the same order.
        entries: asin -> {"instruction": text, "instruction_attributes": [...]} (other keys are ignored).
        rng: samples one price cap per product.
    """
    candidates: list[tuple[Product, Mapping[str, Any], float, list[tuple[str, ...]]]] = []
    carriers: Counter[str] = Counter()
    for product, price in zip(products, prices, strict=True):
        entry = entries.get(product.asin, {})
        attributes = wanted_attributes(entry)
        if attributes:
            choices = list(combinations(*(values for _, values in sorted(product.options))))
            candidates.append((product, entry, price_cap(price, rng), choices))
            for attribute in attributes:
                carriers[attribute] += len(choices)
    goals: list[Goal] = []
    for product, entry, cap, choices in candidates:
        weight = attribute_weight(entry["instruction_attributes"], carriers)
        goals += [synthetic_goal(product, entry, values, cap, weight) for values in choices]
    return goals


def human_goals(
    products: Iterable[Product],
    prices: Sequence[float],
    texts: Mapping[str, Sequence[Mapping[str, Any]]],
    rng: Mersenne,
) -> list[Goal]:
    """One goal for every usable human instruction.

    Args:
        products: the products, in catalogue order.
        prices: prices of the products.
        texts: what ``usable_human_entries`` returned.
        rng: samples one price cap per instruction.
    """
    return [
        human_goal(product, entry, price_cap(price, rng))
        for product, price in zip(products, prices, strict=True)
        for entry in texts.get(product.asin, ())
    ]


def shuffled_numbers(count: int, seed: int) -> NDArray[np.int32]:
    """int32 (count,): the original's shuffle, as the number of the goal at each position."""
    numbers = list(range(count))
    Mersenne(seed).shuffle(numbers)
    return np.array(numbers, "<i4")
