"""The oracle: the best reachable score, the steps to it, and the actions that begin a shortest plan.

Any search is allowed on any page, so a product that some search lists on its first results page is two steps away from
every page; ``find_product`` finds such a search. The oracle scores all products of the catalogue, not only the one that
the goal was made from. In catalogues above ``EXACT_LIMIT`` products it considers only the products collected under the
goal's query, and ``exact`` is False.

A product's score depends on the chosen options only through *which wanted options are met*, a small set; so one pass over
the option groups that keeps the fewest clicks for every such set finds the best choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.webshop.actions import ShopAction, parse_action, searchable
from creditflow.envs.webshop.catalogue.catalogue import Catalogue
from creditflow.envs.webshop.catalogue.products import Product
from creditflow.envs.webshop.reward import (
    SIMILARITY_THRESHOLD,
    attributes_met,
    option_met,
    token_set_ratio,
    type_factor,
)
from creditflow.envs.webshop.rules import PAGE_SIZE, SUB_PAGES, Shop, ShopState, listed_actions, page_kind

__all__ = [
    "EXACT_LIMIT",
    "AttributeMatcher",
    "GoalOracle",
    "GoalPlan",
    "ShopOracle",
    "click_costs",
    "find_product",
    "steps_by_search",
]


class AttributeMatcher:
    """Attribute tests over the rows of a catalogue, vectorised by its distinct attributes.

    Args:
        catalogue: the catalogue.
        rows: the products to test.
    """

    def __init__(self, catalogue: Catalogue, rows: tuple[int, ...]) -> None:
        carriers: dict[str, list[int]] = {}
        self._texts: list[tuple[str, str, str]] = []
        for position, row in enumerate(rows):
            product = catalogue.store.product(row)
            bullets = " ".join(product.bullets).lower()
            self._texts.append((product.title.lower(), bullets, product.description.lower()))
            for attribute in product.attributes:
                carriers.setdefault(attribute, []).append(position)
        self._carriers = {attribute: np.array(positions) for attribute, positions in carriers.items()}
        self.met = lru_cache(maxsize=2048)(self._met)

    def _met(self, wanted: str) -> NDArray[np.bool_]:
        """bool (rows,): whether each product counts as having ``wanted``. Treat as read-only."""
        met = np.fromiter((any(wanted in text for text in texts) for texts in self._texts), bool, len(self._texts))
        for attribute, positions in self._carriers.items():
            if not met[positions].all() and token_set_ratio(attribute, wanted) > SIMILARITY_THRESHOLD:
                met[positions] = True
        return met


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


class GoalOracle:
    """The oracle of one goal, over ``ShopState``.

    Args:
        shop: rules, catalogue and goal.
    """

    def __init__(self, shop: Shop) -> None:
        self.shop, self.plan = shop, GoalPlan(shop)

    def value(self, state: ShopState, steps_left: int | None = None) -> float:
        """Best reachable score, within ``steps_left`` steps when given."""
        if state.page == "done":
            return self.shop.purchase(state).score
        budget = math.inf if steps_left is None else steps_left
        distance = self.distance(state)
        if math.isfinite(distance) and distance <= budget:
            return 1.0
        best = self.plan.best(budget)  # by a new search
        for asin, steps in self._near(state):
            chosen = dict(state.options) if asin == state.asin else {}
            product = self.shop.catalogue.product(asin)
            for met, cost in self.plan.costs(product, chosen).items():
                if steps + cost + 1 <= budget:
                    best = max(best, self.plan.score(product, met))
        return best

    def distance(self, state: ShopState) -> float:
        """Fewest steps to a purchase with a score of 1; infinity if there is none."""
        if state.page == "done":
            return 0.0 if self.shop.purchase(state).score == 1.0 else math.inf
        best, perfect, exact = math.inf, self.plan.perfect(), self.plan.exact
        started = state.asin if state.options else ""  # the product whose options are partly chosen
        for asin, steps in self._near(state):
            if asin in perfect and asin != started:
                best = min(best, steps + perfect[asin] + 1)
            elif asin == started or not exact:  # in a large catalogue ``perfect`` has only some of the products
                chosen = dict(state.options) if asin == started else {}
                clicks = self.plan.clicks_to_perfect(self.shop.catalogue.product(asin), chosen)
                best = min(best, steps + clicks + 1) if clicks >= 0 else best
        for asin, clicks in perfect.items():
            if clicks + 3 < best:
                best = min(best, steps_by_search(self.shop.catalogue, asin) + clicks)
        return float(best)

    def _near(self, state: ShopState) -> Iterator[tuple[str, int]]:
        """Products that are reachable without a new search, with the steps to their page."""
        kind = page_kind(state, self.shop.session)
        back = {"results": 0, "item": 1, "sub": 2}.get(state.page)
        if state.page == "item" or (state.page == "sub" and kind == "item_sub_page"):
            yield state.asin, 0 if state.page == "item" else 1
        if back is None or (state.page != "results" and kind == "search_results"):
            return
        for rank, asin in enumerate(self.shop.catalogue.search(state.query).asins):
            pages = abs(rank // PAGE_SIZE + 1 - state.number)
            if asin != state.asin:
                yield asin, back + pages + 1

    def optimal_actions(self, state: ShopState) -> tuple[str, ...]:
        """Listed actions that start a shortest plan, sorted. If there is none, a search action that does."""
        distance = self.distance(state)
        if state.page == "done" or math.isinf(distance):
            return ()
        leading = {text for text in listed_actions(self.shop, state) if self._leads(state, text, distance - 1)}
        return tuple(sorted(leading or self._searches(distance)))

    def _searches(self, distance: float) -> Iterator[str]:
        """A search for a product that a shortest plan buys, the goal's own product if possible."""
        perfect, goal_asin = self.plan.perfect(), self.shop.goal.asin
        for asin in sorted(perfect, key=lambda asin: (asin != goal_asin, asin)):
            query, _ = find_product(self.shop.catalogue, asin)
            if steps_by_search(self.shop.catalogue, asin) + perfect[asin] == distance:
                yield str(ShopAction("search", query))
                return

    def _leads(self, state: ShopState, text: str, distance: float) -> bool:
        action = parse_action(text)
        return action is not None and self.distance(self.shop.act(state, action)) == distance


class ShopOracle:
    """The environment's oracle, which evaluates snapshots.

    Args:
        read: returns the rules and the state of a snapshot.
        products: size of the catalogue.
    """

    CACHED_GOALS: Final = 256

    def __init__(self, read: Callable[[str], tuple[Shop, ShopState]], products: int) -> None:
        self.exact = products <= EXACT_LIMIT
        self._read = read
        self.of_goal = lru_cache(maxsize=self.CACHED_GOALS)(GoalOracle)

    def value(self, state: str, *, steps_left: int | None = None) -> float:
        """Best reachable score in [0, 1], within ``steps_left`` steps when given."""
        shop, current = self._read(state)
        return self.of_goal(shop).value(current, steps_left)

    def distance(self, state: str) -> float:
        """Fewest steps to a purchase with a score of 1; infinity if there is none."""
        shop, current = self._read(state)
        return self.of_goal(shop).distance(current)

    def optimal_actions(self, state: str) -> tuple[str, ...]:
        """Sorted texts of actions that begin a shortest plan; () if there is none, or after the purchase."""
        shop, current = self._read(state)
        return self.of_goal(shop).optimal_actions(current)
