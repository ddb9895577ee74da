"""Goals: what a shopper is asked to buy, made from products the way WebShop makes them.

Synthetic goals come from a product's instruction and every combination of its options; human goals from people's
texts. Price caps, order and weights follow one random stream, so that goal ``i`` is the original's goal ``i``.
"""

from __future__ import annotations

from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from itertools import product as combinations
from typing import Any

from creditflow.envs.errors import DataError
from creditflow.envs.webshop.mersenne import Mersenne
from creditflow.envs.webshop.products import Product

__all__ = ["AutoSessions", "Goal", "goals_as_records", "human_goals", "price_table", "shuffled", "synthetic_goals"]

NO_CAP = 1000000
CAPS = range(10, 1000, 10)


@dataclass(frozen=True, slots=True)
class Goal:
    """One instruction and what counts as fulfilling it.

    Attributes:
        asin: the product it was made from.
        category, query, name, product_category: of that product.
        instruction: the text the shopper reads.
        attributes: wanted attributes.
        price_cap: highest acceptable price in dollars.
        options: wanted options: (group, value) pairs, or plain values when ``named_options`` is False (human goals).
        weight: chance of being drawn, relative to the others.
        named_options: whether options carry their group's name.
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


def price_table(products: Iterable[Product], rng: Mersenne) -> list[float]:
    """The price that counts for each product, in order: its price, or a draw from its range."""
    return [p.prices[0] if len(p.prices) == 1 else rng.uniform(p.prices[0], p.prices[1]) for p in products]


def _price_cap(price: float, rng: Mersenne) -> tuple[float, str]:
    """A cap above ``price`` and the words that say it."""
    above = [cap for cap in CAPS if cap > price][:4]
    if len(above) < 2:
        return NO_CAP, ""
    _, cap = sorted(rng.sample(above, 2))
    return float(cap), f", and price lower than {cap:.2f} dollars"


def _goal(product: Product, **fields: Any) -> Goal:
    return Goal(product.asin, product.category, product.query, product.title, product.product_category, **fields)


def synthetic_goals(
    products: Iterable[Product], prices: Sequence[float], instructions: Mapping[str, Any], rng: Mersenne
) -> list[Goal]:
    """One goal for every combination of options of every product that has an instruction.

    Args:
        products: in catalogue order.
        prices: of the products, in the same order.
        instructions: asin -> {"instruction": text, "instruction_attributes": [...]} (other keys are not read).
        rng: draws one price cap a product.
    """
    goals: list[Goal] = []
    carriers: defaultdict[str, int] = defaultdict(int)
    for product, price in zip(products, prices, strict=True):
        entry = instructions.get(product.asin, {})
        if "instruction" not in entry:
            continue
        attributes = tuple(entry["instruction_attributes"])
        if not attributes:
            continue
        cap, cap_text = _price_cap(price, rng)
        groups = sorted(product.options)
        names = [name for name, _ in groups]
        for values in combinations(*(values for _, values in groups)):
            pairs = tuple(zip(names, values, strict=True))
            wish = ", and ".join(f"{name}: {value}" for name, value in pairs)
            text = entry["instruction"] + (f" with {wish}" if wish else "") + cap_text
            goals.append(_goal(product, instruction=text, attributes=attributes, price_cap=cap, options=pairs))
            for attribute in attributes:
                carriers[attribute] += 1
    return [
        replace(goal, weight=sum(1 / carriers[a] for a in goal.attributes) / len(goal.attributes)) for goal in goals
    ]


def human_goals(
    products: Iterable[Product], prices: Sequence[float], texts: Mapping[str, Any], rng: Mersenne
) -> list[Goal]:
    """One goal for every human instruction that names at least one attribute.

    Args:
        products: in catalogue order.
        prices: of the products.
        texts: asin -> list of {"instruction", "instruction_attributes", "instruction_options"}.
        rng: draws one price cap an instruction.

    Raises:
        DataError: an instruction without those keys.
    """
    goals: list[Goal] = []
    for product, price in zip(products, prices, strict=True):
        for entry in texts.get(product.asin, ()):
            try:
                text, wanted = entry["instruction"], entry["instruction_attributes"]
                options = tuple(entry["instruction_options"])
            except (TypeError, KeyError) as error:
                raise DataError(f"human instruction of {product.asin}: expected the key {error}") from error
            if not wanted:
                continue
            cap, cap_text = _price_cap(price, rng)
            goals.append(
                _goal(
                    product,
                    instruction=text.strip(".") + cap_text,
                    attributes=tuple(wanted),
                    price_cap=cap,
                    options=options,
                    named_options=False,
                )
            )
    return goals


def shuffled(goals: Sequence[Goal], seed: int) -> tuple[list[Goal], Mersenne]:
    """The goals in the order of a fresh stream, and the stream after it."""
    rng, order = Mersenne(seed), list(goals)
    rng.shuffle(order)
    return order, rng


class AutoSessions:
    """Session names and goal numbers of resets that name neither, as the original draws them.

    The draw is the original's, off by one: goal 0 never comes up and goal ``i`` has the weight of goal ``i - 1``.

    Args:
        goals: in their final order.
        rng: the stream that ``shuffled`` returned; it is consumed.
    """

    def __init__(self, goals: Sequence[Goal], rng: Mersenne) -> None:
        self._bounds = [0.0, *accumulate(goal.weight for goal in goals)]
        self._rng = rng

    def draw(self) -> tuple[str, int]:
        """The next session's name (ten letters) and goal number."""
        name = "".join(self._rng.choices("abcdefghijklmnopqrstuvwxyz", k=10))
        return name, min(bisect(self._bounds, self._rng.uniform(0, self._bounds[-1])), len(self._bounds) - 2)


def goals_as_records(goals: Iterable[Goal]) -> list[dict[str, Any]]:
    """The goals as the original's dictionaries, keys in its order."""
    return [
        {
            "asin": goal.asin,
            "category": goal.category,
            "query": goal.query,
            "name": goal.name,
            "product_category": goal.product_category,
            "instruction_text": goal.instruction,
            "attributes": list(goal.attributes),
            "price_upper": goal.price_cap,
            "goal_options": dict(goal.options) if goal.named_options else list(goal.options),  # type: ignore[arg-type]
            "weight": goal.weight if goal.named_options else 1,
        }
        for goal in goals
    ]
