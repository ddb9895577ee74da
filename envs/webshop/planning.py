"""Plans for one goal: purchase scores by number of option clicks, and searches that find a product.

A product's score depends on the chosen options only through *which wanted options are met*, a small set; so one pass over
the option groups that keeps the fewest clicks for every such set finds the best choice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.webshop.actions import ShopAction, parse_action, searchable
from creditflow.envs.webshop.catalogue.catalogue import Catalogue
from creditflow.envs.webshop.catalogue.matching import AttributeMatcher
from creditflow.envs.webshop.catalogue.products import Product
from creditflow.envs.webshop.reward import attributes_met, option_met, type_factor
from creditflow.envs.webshop.rules import PAGE_SIZE, SUB_PAGES, Shop

__all__ = ["EXACT_LIMIT", "GoalPlan", "click_costs", "find_product", "steps_by_search"]

EXACT_LIMIT: Final = 20_000  # in larger catalogues not all products are considered
MIN_STEPS: Final = 3  # search, open, buy
_NOT_OPTIONS: Final = {"buy now", "back to search", "next >", "< prev", "search", *SUB_PAGES}


@lru_cache(maxsize=8)
def _matcher(catalogue: Catalogue, rows: tuple[int, ...]) -> AttributeMatcher:
    return AttributeMatcher(catalogue, rows)


@lru_cache(maxsize=4096)
def find_product(catalogue: Catalogue, asin: str) -> tuple[str, int]:
    """A search that lists the product on the earliest results page, and that page's number; ("", 0) if none does."""
    product = catalogue.product(asin)
    best, best_page = "", 0
    for text in (product.title, f"<q> {product.query}", f"{product.title} {product.description}", product.document()):
        query = searchable(text)
        asins = catalogue.search(query).asins if query else ()
        if asin in asins:
            page = asins.index(asin) // PAGE_SIZE + 1
            if not best or page < best_page:
                best, best_page = query, page
        if best_page == 1:
            break
    return best, best_page


def steps_by_search(catalogue: Catalogue, asin: str) -> float:
    """Fewest steps from a search to the product's purchase, without options; infinity if no search lists it."""
    _, page = find_product(catalogue, asin)
    return 1 + (page - 1) + 1 + 1 if page else math.inf  # search, go to the page, open, buy


def click_costs(groups: Mapping[str, Mapping[int, int]]) -> dict[int, int]:
    """Fewest clicks for every reachable set of met options.

    Args:
        groups: option group -> {set met by a value (as bits): number of clicks}; 0 clicks is the present value.

    Returns:
        set met -> fewest clicks.

    >>> click_costs({"color": {0: 0, 1: 1}, "size": {2: 0}})
    {2: 0, 3: 1}
    """
    costs = {0: 0}
    for choices in groups.values():
        merged: dict[int, int] = {}
        for met, clicks in costs.items():
            for more, extra in choices.items():
                key = met | more
                merged[key] = min(merged.get(key, clicks + extra), clicks + extra)
        costs = merged
    return costs


class GoalPlan:
    """Everything about one goal that does not depend on the state, computed on demand.

    Args:
        shop: rules, catalogue and goal.
    """

    def __init__(self, shop: Shop) -> None:
        self.shop, self.goal, self.catalogue = shop, shop.goal, shop.catalogue
        self.exact = len(self.catalogue) <= EXACT_LIMIT
        self._total = len(self.goal.attributes) + len(self.goal.options) + 1
        self._base: dict[str, tuple[int, bool, float]] = {}
        self._choices: dict[str, dict[str, dict[str, int]]] = {}
        self._covers: dict[str, int] = {}
        self._fresh: dict[str, dict[int, int]] = {}
        self._perfect: dict[str, int] | None = None
        self._best: dict[int, float] | None = None

    # -- one product --------------------------------------------------------------------------------------------------
    def _base_of(self, product: Product) -> tuple[int, bool, float]:
        base = self._base.get(product.asin)
        if base is None:
            factor = type_factor(product, self.goal, self.shop.tagger)[0]
            cheap = self.catalogue.price(product.asin) <= self.goal.price_cap
            base = self._base[product.asin] = (attributes_met(product, self.goal), cheap, factor)
        return base

    def cover(self, value: str) -> int:
        """The wanted options that a chosen value meets, as bits."""
        mask = self._covers.get(value)
        if mask is None:
            mask = 0
            options: tuple[str | tuple[str, str], ...] = self.goal.options
            for i, option in enumerate(options):
                mask |= option_met(option, (value,)) << i
            self._covers[value] = mask
        return mask

    def choices(self, product: Product) -> dict[str, dict[str, int]]:
        """Option group -> {clickable value: options met}; of equal values the last group's counts."""
        choices = self._choices.get(product.asin)
        if choices is None:
            owner = {value: name for name, values in product.options for value in values}
            choices = {name: {} for name, _ in product.options}
            for value, name in owner.items():
                click = ShopAction("click", value)
                if value not in _NOT_OPTIONS and parse_action(str(click)) == click:
                    choices[name][value] = self.cover(value)
            self._choices[product.asin] = choices
        return choices

    def costs(self, product: Product, chosen: Mapping[str, str]) -> dict[int, int]:
        """Set of met options -> fewest clicks from the ``chosen`` options."""
        if not chosen and product.asin in self._fresh:
            return self._fresh[product.asin]
        groups = {}
        for name, values in self.choices(product).items():
            options = dict.fromkeys(values.values(), 1)
            options[self.cover(chosen[name]) if name in chosen else 0] = 0
            groups[name] = options
        costs = click_costs(groups)
        if not chosen:
            self._fresh[product.asin] = costs
        return costs

    def score(self, product: Product, met: int) -> float:
        """The score of buying the product with these options met."""
        attributes, cheap, factor = self._base_of(product)
        return (attributes + met.bit_count() + cheap) / self._total * factor

    def clicks_to_perfect(self, product: Product, chosen: Mapping[str, str]) -> int:
        """Fewest option clicks to a purchase with a score of 1; -1 if there is none."""
        everything = (1 << len(self.goal.options)) - 1
        if self.score(product, everything) < 1.0:
            return -1
        return self.costs(product, chosen).get(everything, -1)

    # -- all products -------------------------------------------------------------------------------------------------
    def rows(self) -> tuple[int, ...]:
        """The products considered: all, or in a large catalogue those collected under the goal's query."""
        store = self.catalogue.store
        if self.exact:
            return tuple(range(len(store)))
        goal_row = store.row(self.goal.asin)
        return tuple(
            sorted(
                {*(int(row) for row in store.rows_of_query(self.goal.query)), *([] if goal_row is None else [goal_row])}
            )
        )

    def _met(self, rows: tuple[int, ...]) -> NDArray[np.int64]:
        """int64 (rows,): how many wanted attributes each product has."""
        matcher, met = _matcher(self.catalogue, rows), np.zeros(len(rows), np.int64)
        for attribute in self.goal.attributes:
            met += matcher.met(attribute)
        return met

    def perfect(self) -> Mapping[str, int]:
        """Products that can be bought for a score of 1, by id, with the option clicks needed."""
        if self._perfect is None:
            rows, store = self.rows(), self.catalogue.store
            complete = np.flatnonzero(self._met(rows) == len(self.goal.attributes))
            clicks_of = {}
            for row in (rows[position] for position in complete):
                if store.price(row) <= self.goal.price_cap:
                    product = self.catalogue.product(store.asin(row))
                    clicks = self.clicks_to_perfect(product, {})
                    if clicks >= 0:
                        clicks_of[product.asin] = clicks
            self._perfect = dict(sorted(clicks_of.items()))
        return self._perfect

    def best(self, steps: float) -> float:
        """The best score of a purchase within ``steps`` steps that begin with a search."""
        if self._best is None:
            self._best = self._scan()
        return _within(self._best, steps)

    def _scan(self) -> dict[int, float]:
        """Number of steps -> best score through a search, for every number of steps that improves the score."""
        rows, store = self.rows(), self.catalogue.store
        cheap = np.array([store.price(row) <= self.goal.price_cap for row in rows])
        bound = (self._met(rows) + len(self.goal.options) + cheap) / self._total
        best: dict[int, float] = {}
        for position in np.argsort(-bound, kind="stable"):
            if bound[position] <= best.get(MIN_STEPS, 0.0):
                break
            product = self.catalogue.product(store.asin(rows[position]))
            scores = [(clicks, self.score(product, met)) for met, clicks in self.costs(product, {}).items()]
            if all(score <= _within(best, MIN_STEPS + clicks) for clicks, score in scores):
                continue  # not better even from a first results page
            begin = steps_by_search(self.catalogue, product.asin)
            for clicks, score in scores:
                if math.isfinite(begin) and score > _within(best, begin + clicks):
                    best[int(begin) + clicks] = score
        return best


def _within(best: Mapping[int, float], steps: float) -> float:
    return max((score for needed, score in best.items() if needed <= steps), default=0.0)
