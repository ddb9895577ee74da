"""The oracle: the best reachable score, the steps to it, and the actions that begin a shortest plan.

Any search is allowed on any page, so a product that some search lists on its first results page is two steps away from
every page; ``find_product`` finds such a search. The oracle scores all products of the catalogue, not only the one that
the goal was made from. In catalogues above ``EXACT_LIMIT`` products it considers only the products collected under the
goal's query, and ``exact`` is False.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final

from creditflow.envs.webshop.actions import ShopAction, parse_action
from creditflow.envs.webshop.admissible import listed_actions
from creditflow.envs.webshop.planning import EXACT_LIMIT, GoalPlan, find_product, steps_by_search
from creditflow.envs.webshop.rules import PAGE_SIZE, Shop, ShopState, page_kind

__all__ = ["GoalOracle", "ShopOracle"]


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
        """Listed actions that begin a shortest plan, sorted; where none does, a search that does."""
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
    """The environment's oracle: takes snapshots.

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
