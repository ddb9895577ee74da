"""A catalogue with its goals, loaded from WebShop's files.

``load_stock`` reads the three files, plain or gzip, of the thousand or any other number of products, and replays the
original's random stream, so that prices, price caps and goal numbers are the original's for the same seeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from creditflow.envs.errors import ConfigError, DataError, short_repr
from creditflow.envs.webshop.catalogue.catalogue import Catalogue, Products
from creditflow.envs.webshop.catalogue.products import LoadReport, read_products
from creditflow.envs.webshop.catalogue.records import stream_items, stream_records
from creditflow.envs.webshop.goals.goals import (
    Goal,
    Mersenne,
    human_goals,
    price_table,
    shuffled_numbers,
    synthetic_goals,
    usable_human_entries,
)

__all__ = ["ShopFiles", "Stock", "find_files", "load_stock"]


@dataclass(frozen=True)
class Stock:
    """A catalogue with its goals, shared by every environment over it.

    Attributes:
        catalogue: the products.
        goals: the goals, in their published order; goal ``i`` is ``goals[i]``.
        report: records skipped on loading.
    """

    catalogue: Catalogue
    goals: Sequence[Goal]
    report: LoadReport = field(default_factory=LoadReport)

    def number_of(self, goal: Goal) -> int:
        """The number of the first goal that is the same task; -1 if there is none. Only goals of its product are compared."""
        for number in self._of_product.get(goal.asin, ()):
            if self.goals[number].same_task_as(goal):
                return number
        return -1

    def goals_of(self, asin: str) -> Iterator[Goal]:
        """Yield the goals made from a product, in their published order."""
        return (self.goals[number] for number in self._of_product.get(asin, ()))

    @cached_property
    def _of_product(self) -> dict[str, list[int]]:
        """The numbers of each product's goals."""
        numbers: dict[str, list[int]] = {}
        for number, goal in enumerate(self.goals):
            numbers.setdefault(goal.asin, []).append(number)
        return numbers


@dataclass(frozen=True)
class ShopFiles:
    """The paths of WebShop's files.

    Attributes:
        items: ``items_shuffle*.json``: the products.
        attributes: ``items_ins_v2*.json``: their attributes and synthetic instructions.
        human: ``items_human_ins*.json``: instructions written by people, for human goals only.
    """

    items: Path
    attributes: Path
    human: Path | None = None


_PATTERNS = {"items": "items_shuffle*.json*", "attributes": "items_ins_v2*.json*", "human": "items_human_ins*.json*"}


def find_files(folder: str | Path) -> ShopFiles:
    """WebShop's files in a folder, by the names of its download script.

    Raises:
        DataError: a file is missing, or several match; the message names them.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder; expected the one that contains WebShop's {_PATTERNS['items']}")
    by_role: dict[str, Path] = {}
    for role, pattern in _PATTERNS.items():
        paths = sorted(path for path in folder.glob(pattern) if path.name.endswith((".json", ".json.gz")))
        if len(paths) > 1:
            raise DataError(f"{folder}: several files match {pattern} ({', '.join(p.name for p in paths)}); keep one")
        if paths:
            by_role[role] = paths[0]
        elif role != "human":
            raise DataError(
                f"{folder}: no {pattern}. WebShop's setup.sh fetches it from Google Drive: items_shuffle_1000.json and "
                "items_ins_v2_1000.json (1,000 products), or items_shuffle.json and items_ins_v2.json (all)"
            )
    return ShopFiles(by_role["items"], by_role["attributes"], by_role.get("human"))


def load_stock(
    files: ShopFiles | str | Path,
    *,
    goals: str = "synthetic",
    seed: int = 42,
    goal_seed: int = 233,
    strict: bool = False,
) -> Stock:
    """Read WebShop's files into memory.

    Args:
        files: the files, or the folder that holds them.
        goals: made from templates ("synthetic") or written by people ("human").
        seed: random seed of prices and price caps.
        goal_seed: random seed of the order of goals; the original uses 233.
        strict: raise an error for malformed records instead of skipping them.

    Raises:
        DataError: a file is missing, truncated or malformed; with ``strict``, a record is malformed.
        ConfigError: another kind of goals.
    """
    if not isinstance(files, ShopFiles):
        files = find_files(files)
    report = LoadReport()
    entries: dict[str, Any] = dict(stream_items(files.attributes))
    products = list(read_products(stream_records(files.items), entries, report, strict=strict))
    if not products:
        raise DataError(f"{files.items} contains no product ({report})")
    rng = Mersenne(seed)
    prices = price_table(products, rng)
    if goals == "synthetic":
        unordered = synthetic_goals(products, prices, entries, rng)
    elif goals == "human":
        if files.human is None:
            raise DataError(f"human goals need a file {_PATTERNS['human']} next to {files.items}")
        texts = usable_human_entries(stream_items(files.human), report, strict=strict)
        unordered = human_goals(products, prices, texts, rng)
    else:
        raise ConfigError(f"goals must be 'synthetic' or 'human', got {short_repr(goals)}")
    if not unordered:
        raise DataError(f"{files.items}: no product has an instruction, so there is no {goals} goal")
    ordered = [unordered[number] for number in shuffled_numbers(len(unordered), goal_seed)]
    return Stock(Catalogue(Products(products, prices)), ordered, report)
