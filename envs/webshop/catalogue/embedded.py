"""The embedded shop: a thousand products and their goals, generated once per process from a seeded grammar.

The products of a type share attributes and option values, so that the first hit of a search is often the wrong one. The
same seed gives the same shop on every machine, as only raw integers are sampled. A test
compares its difficulty with that of WebShop's thousand products.

The vocabulary (``assets/worlds/webshop.json``) has five departments with their product types, attributes and options. Every type is
written "plural | singular"; the plural is the search phrase of its products. A few templates word the goals and state all
requirements. All of it is invented for this package; it contains no product text from elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final, TypeVar

import numpy as np

from creditflow.envs.tasks import sample_index
from creditflow.envs.webshop.catalogue.catalogue import Catalogue, Products
from creditflow.envs.webshop.catalogue.products import Product
from creditflow.envs.webshop.catalogue.stock import Stock
from creditflow.envs.webshop.goals.goals import Goal

__all__ = [
    "DEPARTMENTS",
    "FILLERS",
    "GENERATION",
    "SEED",
    "Department",
    "RandomSource",
    "embedded_stock",
    "make_products",
    "phrase",
]


@dataclass(frozen=True, slots=True)
class Department:
    """One department.

    Attributes:
        name: its name on pages and in goals.
        title: first part of the category path.
        types: "plural | singular", those with most products first.
        shelves: second part of the category path, assigned to types in turn.
        attributes: attributes of its products.
        options: option group -> possible values, near misses included.
        prices: lowest and highest usual price in dollars.
        uses: phrases for titles and descriptions.
    """

    name: str
    title: str
    types: tuple[str, ...]
    shelves: tuple[str, ...]
    attributes: tuple[str, ...]
    options: dict[str, tuple[str, ...]]
    prices: tuple[int, int]
    uses: tuple[str, ...]


_WORDS: Final[dict[str, Any]] = json.loads((files("creditflow.assets") / "worlds" / "webshop.json").read_text("ascii"))


def _department(data: dict[str, Any]) -> Department:
    options = {
        name: tuple(_WORDS["colours"] if values == "colours" else values) for name, values in data["options"].items()
    }
    lists = {name: tuple(data[name]) for name in ("types", "shelves", "attributes", "prices", "uses")}
    return Department(data["name"], data["title"], options=options, **lists)


DEPARTMENTS: Final = tuple(map(_department, _WORDS["departments"]))
FILLERS: Final[list[str]] = _WORDS["fillers"]
_REWORDED: Final[dict[str, str]] = _WORDS["reworded"]


def _reword(value: str) -> str:
    """Another wording of an option value: "8 oz" for "8 ounce"."""
    if value in _REWORDED:
        return _REWORDED[value]
    number, _, unit = value.rpartition(" ")
    return f"{number} {_REWORDED[unit]}" if number and unit in ("ounce", "pound", "inch", "ft") else value


def _list(items: Sequence[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def phrase(
    product: Product,
    attributes: Sequence[str],
    options: Sequence[tuple[str, str]],
    cap: float,
    rng: RandomSource,
    reworded: bool,
) -> str:
    """The instruction of a goal: product, attributes, options and price cap.

    Args:
        product: the goal's product.
        attributes: wanted attributes, at least one.
        options: wanted (group, value) pairs.
        cap: highest price in dollars.
        rng: picks the wording.
        reworded: word sizes and counts differently from the shop.
    """
    if reworded:
        options = [(name, _reword(value)) for name, value in options]
    split = rng.below(len(attributes) + 1)
    before, after = attributes[:split], attributes[split:]
    things = f"{_list(before)} {product.query}" if before else product.query
    text = rng.choice(_WORDS["openings"]).format(things=things)
    if after:
        text += rng.choice(_WORDS["wishes"]).format(a=_list(after))
    if options:
        if rng.bernoulli(50):
            text += ". Choose " + _list([f"{name}: {value}" for name, value in options])
        else:
            text += ". I want it in " + _list(
                [f"{value} {name}" if name != "size" else f"size {value}" for name, value in options]
            )
    return f"{text}. {rng.choice(_WORDS['prices']).format(cap=cap)}."


T = TypeVar("T")
OptionPool = dict[str, list[str]]

GENERATION: Final = 1
SEED: Final = 20_261_121
# products of a department's types, the largest first: 200 in all
TYPE_SIZES: Final = (52, 34, 22, 14, 10, 8, 7, 6, 5, 5, 4, 4, 4, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 1)
TYPE_ATTRIBUTES: Final = 14
STRAYS: Final = 4  # attributes that a product's texts may mention although it does not have them
NAMED: Final = 70  # per cent of goals whose options include their group's name, as synthetic goals do
REWORDED: Final = 60  # per cent of the others that word sizes differently from the shop
TYPE_VALUES: Final = 20  # option values that the products of a type share, per group


class RandomSource:
    """Random choices made from raw 64-bit integers, which are the same in every NumPy version."""

    def __init__(self, *seed: int) -> None:
        self._rng = np.random.Generator(np.random.PCG64(list(seed)))

    def below(self, n: int) -> int:
        """A uniform integer in 0..n-1."""
        return sample_index(self._rng, n)

    def choice(self, items: Sequence[T]) -> T:
        """One item."""
        return items[self.below(len(items))]

    def sample(self, items: Sequence[T], k: int) -> list[T]:
        """``k`` different items in random order."""
        pool = list(items)
        return [pool.pop(self.below(len(pool))) for _ in range(min(k, len(pool)))]

    def bernoulli(self, percent: int) -> bool:
        """True with a probability of ``percent`` per cent."""
        return self.below(100) < percent


def _asin(number: int) -> str:
    """A ten-character id that carries no information about the product."""
    digits, value = "", (number * 7_919_417 + 104_729) % 36**7
    for _ in range(7):
        value, digit = divmod(value, 36)
        digits += "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[digit]
    return f"C0{digits}X"


def _capital(text: str) -> str:
    return " ".join(word[:1].upper() + word[1:] for word in text.split())


def _product(
    number: int, department: Department, type_index: int, pool: Sequence[str], values: OptionPool, rng: RandomSource
) -> Product:
    plural, singular = (form.strip() for form in department.types[type_index].split("|"))
    attributes = rng.sample(pool, (2, 2, 3, 3, 3, 4, 5, 6)[rng.below(8)])
    brand = rng.choice(_WORDS["brand_starts"]) + rng.choice(_WORDS["brand_ends"])
    strays = rng.sample([a for a in pool if a not in attributes], STRAYS)
    mentioned = rng.sample([*attributes, *strays], 7)  # attributes that title and texts mention
    named = mentioned[: 1 + rng.below(2)]
    lead = _capital(named[0])
    title = f"{brand} {lead} {_capital(singular)} {_capital(rng.choice(department.uses))}"
    if len(named) > 1:
        title += f", {_capital(named[1])}"
    if rng.bernoulli(60):
        title += f", {_capital(rng.choice(FILLERS[:8]))}"
    title += f", Model {rng.choice('ABCDEFGHKLMNPRST')}{10 + rng.below(90)}"
    sentences = [f"This {singular} {rng.choice(department.uses)} comes from {brand}"]
    sentences += [f"Buyers praise it: {attribute}" for attribute in mentioned[2:4]]
    sentences += rng.sample(FILLERS, 3 + rng.below(8))
    description = "" if rng.bernoulli(30) else ". ".join(sentences) + "."
    bullets = [f"{_capital(a)}: {rng.choice(FILLERS).lower()}" for a in mentioned[4:7]]
    bullets += rng.sample(FILLERS, 2)
    low, high = department.prices
    amount = low + rng.below(high - low) * (1 + rng.below(4)) // 4
    prices: tuple[float, ...] = (round(amount + (0.99, 0.49, 0.0, 0.95)[rng.below(4)], 2),)
    if rng.bernoulli(9):
        prices = (prices[0], round(prices[0] + 1 + rng.below(12), 2))
    tag = " to ".join(f"${price}" for price in prices)
    path = f"{department.title} › {department.shelves[type_index % len(department.shelves)]} › {_capital(plural)}"
    return Product(
        asin=_asin(number),
        title=title,
        description=description,
        bullets=tuple(bullets),
        prices=prices,
        price_tag=tag,
        options=_options(values, type_index, rng),
        attributes=tuple(attributes),
        category=department.name,
        query=plural,
        product_category=path,
    )


def _options(pools: OptionPool, type_index: int, rng: RandomSource) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The option groups of a product: none for about half of them, else one or two, rarely three."""
    groups = list(pools.items())
    count = (
        (0, 0, 0, 0, 0, 1, 1, 2, 2, 2)[rng.below(10)] if type_index else (0, 1, 1, 2, 2, 2, 2, 2, 2, 3)[rng.below(10)]
    )
    chosen = groups[:2] if count == 2 else rng.sample(groups, count)
    return tuple((name, tuple(rng.sample(values, 3 + rng.below(6)))) for name, values in chosen)


def make_products(seed: int = SEED) -> list[Product]:
    """The thousand products, in catalogue order."""
    products: list[Product] = []
    for d, department in enumerate(DEPARTMENTS):
        for type_index, size in enumerate(TYPE_SIZES):
            rng = RandomSource(seed, GENERATION, d, type_index)
            pool = rng.sample(department.attributes, TYPE_ATTRIBUTES)
            values = {name: rng.sample(options, TYPE_VALUES) for name, options in department.options.items()}
            products += [_product(len(products) + k, department, type_index, pool, values, rng) for k in range(size)]
    return RandomSource(seed, GENERATION, 99).sample(products, len(products))


def make_goals(products: Sequence[Product], prices: Sequence[float], seed: int = SEED) -> list[Goal]:
    """Up to three goals for a product with several option groups, one with one group, one for a few products without any."""
    goals: list[Goal] = []
    for row, (product, price) in enumerate(zip(products, prices, strict=True)):
        rng = RandomSource(seed, GENERATION, 100, row)
        if not product.options and not rng.bernoulli(3):
            continue
        for _ in range(3 if len(product.options) > 1 else 1):
            options = tuple((name, rng.choice(values)) for name, values in sorted(product.options))
            attributes = tuple(rng.sample(product.attributes, 1 + rng.below(len(product.attributes))))
            cap = (int(price) // 10 + 1 + rng.below(3)) * 10.0
            named = rng.bernoulli(NAMED)
            text = phrase(product, attributes, options, cap, rng, not named and rng.bernoulli(REWORDED))
            option_values = options if named else tuple(value for _, value in options)
            goals.append(
                Goal(
                    product.asin,
                    product.category,
                    product.query,
                    product.title,
                    product.product_category,
                    text,
                    attributes,
                    cap,
                    option_values,
                    named_options=named,
                )
            )
    return list(dict.fromkeys(goals))


@cache
def embedded_stock() -> Stock:
    """The embedded shop, generated once per process (about half a second)."""
    products = make_products()
    rng = RandomSource(SEED, GENERATION, 98)
    prices = [p.prices[0] if len(p.prices) == 1 else round(p.prices[0] + rng.below(100) / 100, 2) for p in products]
    catalogue = Catalogue(Products(products, prices))
    return Stock(catalogue, make_goals(products, prices))
