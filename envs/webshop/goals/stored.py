"""The goals of a store, made on demand: a million products have too many to keep in memory.

Synthetic goals are numbered product by product; a number denotes a product and one combination of its options.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.files.checksummed_folder import ChecksummedFolder
from creditflow.envs.reading.failures import loading
from creditflow.envs.reading.json_text import parse_json
from creditflow.envs.text.bm25.stored import stored_index
from creditflow.envs.webshop.catalogue.catalogue import Catalogue
from creditflow.envs.webshop.catalogue.stock import Stock
from creditflow.envs.webshop.catalogue.store import StoredProducts, open_files
from creditflow.envs.webshop.goals.goals import Goal, human_goal, shuffled_numbers, synthetic_goal

__all__ = ["StoredGoals", "open_store"]

MAX_GOALS = 2**31 - 1  # their order is kept in 32-bit numbers


class StoredGoals(Sequence[Goal]):
    """The goals of a store in their shuffled order.

    Args:
        files: the store.
        products: its products.
        kind: "synthetic" or "human".
        goal_seed: random seed of their order.

    Raises:
        DataError: the store is damaged, or has no such goals.
    """

    def __init__(self, files: ChecksummedFolder, products: StoredProducts, kind: str, goal_seed: int) -> None:
        self._products, self._human = products, kind == "human"
        self._path = files.path
        self._rows = files.rows(f"{kind}_rows.i4", len(products))
        self._caps = files.array(f"{kind}_caps.f8", "<f8")
        self._weights = files.array(f"{kind}_weights.f8", "<f8")
        count = files.fact("goals", dict).get(kind)
        if type(count) is not int or not 0 < count <= MAX_GOALS:
            raise DataError(f"{files.path}: its header has no valid number of {kind} goals; {files.how_to_fix}")
        self._starts = files.offsets(f"{kind}_starts.i8", count)
        self._texts = files.blob("human_texts") if self._human else None
        sizes = {len(self._rows), len(self._caps), len(self._weights), len(self._starts) - 1}
        if len(sizes | ({len(self._texts)} if self._texts is not None else set())) > 1:
            raise DataError(
                f"{files.path}: rows, caps and weights of {kind} goals differ in number; {files.how_to_fix}"
            )
        if not (np.isfinite(self._caps).all() and np.isfinite(self._weights).all()):
            raise DataError(f"{files.path}: a cap or weight of {kind} goals is not a number; {files.how_to_fix}")
        self._order = _order(files, kind, goal_seed, count)

    def __len__(self) -> int:
        return len(self._order)

    @overload
    def __getitem__(self, i: int) -> Goal: ...
    @overload
    def __getitem__(self, i: slice) -> list[Goal]: ...
    def __getitem__(self, i: int | slice) -> Goal | list[Goal]:
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(len(self)))]
        number = int(self._order[i])
        position = int(np.searchsorted(self._starts, number, side="right")) - 1
        product, extra = self._products.packed(int(self._rows[position]))
        cap = float(self._caps[position])
        with loading(f"{self._path}: goal {i} is damaged (import the data again)"):
            if self._texts is not None:
                return human_goal(product, parse_json(self._texts[position], where="its text"), cap)
            choices = [values for _, values in sorted(product.options)]
            values = _combination(choices, number - int(self._starts[position]))
            return synthetic_goal(product, extra, values, cap, float(self._weights[position]))

    def of_product(self, asin: str) -> Sequence[int]:
        """Numbers of the goals made from a product, ascending."""
        row = self._products.row(asin)
        if row is None:
            return ()
        positions = np.flatnonzero(np.asarray(self._rows) == row)
        goals = [
            self._positions[self._starts[position] : self._starts[position + 1]] for position in positions.tolist()
        ]
        return sorted(int(number) for numbers in goals for number in numbers)

    @cached_property
    def _positions(self) -> NDArray[np.int32]:
        """int32 (N,): the position of each goal after the shuffle."""
        positions = np.empty(len(self._order), np.int32)
        positions[self._order] = np.arange(len(self._order), dtype=np.int32)
        return positions


def _combination(groups: list[tuple[str, ...]], number: int) -> tuple[str, ...]:
    """The ``number``-th element of the Cartesian product, the last group running fastest."""
    values: list[str] = []
    for choices in reversed(groups):
        number, position = divmod(number, len(choices))
        values.append(choices[position])
    return tuple(reversed(values))


def _order(files: ChecksummedFolder, kind: str, goal_seed: int, count: int) -> NDArray[np.int32]:
    name = f"{kind}_order_{goal_seed}.i4"
    if name in files:
        order = files.rows(name, count)
        if len(order) != count:
            raise DataError(f"{files.path}: {name} must contain {count} goals, got {len(order)}; {files.how_to_fix}")
        return order
    return shuffled_numbers(count, goal_seed)


def open_store(path: str, *, goals: str = "synthetic", goal_seed: int = 233, seed: int | None = None) -> Stock:
    """Open a store, in a time that does not depend on its size.

    Args:
        path: the folder.
        goals: "synthetic" or "human".
        goal_seed: random seed of the order of goals.
        seed: the seed that prices and caps must have; None for any.

    Raises:
        DataError: the store is damaged, or has no such goals.
        ConfigError: its prices were sampled with another seed.
    """
    files = open_files(path)
    sampled, kinds = files.fact("seed", int), files.fact("goals", dict)
    if seed is not None and sampled != seed:
        raise ConfigError(
            f"{path}: prices were sampled with seed {sampled}, not {seed}; import the data with --seed {seed}"
        )
    if goals not in kinds:
        raise DataError(f"{path} contains no {goals} goals, only {', '.join(kinds) or 'none'}")
    products = StoredProducts(files)
    return Stock(
        Catalogue(products, stored_index(files, files.array("asin_ranks.i4", "<i4"))),
        StoredGoals(files, products, goals, goal_seed),
    )
