"""The rules of the shop: states, the clickable texts of a page, and transitions.

A state is a small immutable value; the catalogue holds everything else. The rules follow the original exactly, including
its oddities: every action but a purchase can be repeated for ever, a search works on any page, and the target of
"< prev" depends on which words occur in the page's URL.

Any search is admissible, and the set of all searches is infinite. ``listed_actions`` has every admissible click, and on the
first page two searches made from the instruction alone: its text without the price, and its first sentence or the part
before the options.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple

from creditflow.envs.errors import DataError
from creditflow.envs.webshop.actions import ShopAction, parse_action, searchable
from creditflow.envs.webshop.catalogue.catalogue import Catalogue
from creditflow.envs.webshop.catalogue.products import Product
from creditflow.envs.webshop.goals.goals import Goal
from creditflow.envs.webshop.goals.nouns import Tagger, rule_tagger
from creditflow.envs.webshop.reward import NO_PURCHASE, RewardParts, score_purchase

__all__ = [
    "INDEX",
    "Click",
    "Shop",
    "ShopState",
    "address",
    "check_state",
    "listed_actions",
    "page_kind",
    "suggested_searches",
]

PAGE_SIZE: Final = 10
SUB_PAGES: Final = {name.lower(): name for name in ("Description", "Features", "Reviews", "Attributes")}
BASE: Final = "http://127.0.0.1:3000"

PageKind = Literal["index", "results", "item", "sub", "done"]


@dataclass(frozen=True, slots=True)
class ShopState:
    """The present page and the choices made.

    Attributes:
        page: kind of page.
        query: words searched for, "" on the index page.
        number: number of the results page.
        asin: product viewed or bought, "" elsewhere.
        options: chosen (group, value) pairs, in order of first choice.
        sub: name of the sub page, "" elsewhere.
        clicked: products viewed since the last visit to the index page.
    """

    page: PageKind = "index"
    query: str = ""
    number: int = 0
    asin: str = ""
    options: tuple[tuple[str, str], ...] = ()
    sub: str = ""
    clicked: frozenset[str] = frozenset()


INDEX: Final = ShopState()


class Click(NamedTuple):
    """The target of a clickable text: its kind, with the button, option group or product id."""

    kind: Literal["button", "link", "option"]
    target: str


def address(state: ShopState, session: str) -> str:
    """The page's URL, unescaped as in the original."""
    words = state.query.replace(" ", "+")
    options = dict(state.options)
    match state.page:
        case "index":
            return f"{BASE}/{session}"
        case "results":
            return f"{BASE}/search_results/{session}/{words}/{state.number}"
        case "item":
            return f"{BASE}/item_page/{session}/{state.asin}/{words}/{state.number}/{json.dumps(options)}"
        case "sub":
            return f"{BASE}/item_sub_page/{session}/{state.asin}/{words}/{state.number}/{state.sub}/{options}"
        case _:
            return f"{BASE}/done/{session}/{state.asin}/{options}"


def page_kind(state: ShopState, session: str) -> str:
    """The page kind that the original infers from the URL: the first of these names that occurs anywhere in it."""
    url = address(state, session)
    return next((name for name in ("search_results", "item_page", "item_sub_page", "done") if name in url), "")


def check_state(catalogue: Catalogue, state: ShopState) -> None:
    """Check that a restored state's product is in the catalogue, and its options are the product's.

    Raises:
        DataError: one of them is not.
    """
    if not state.asin:
        return
    if catalogue.store.row(state.asin) is None:
        raise DataError(f"webshop: the snapshot's product {state.asin[:40]!r} is not in the catalogue")
    offered = dict(catalogue.product(state.asin).options)
    for name, value in state.options:
        if value not in offered.get(name, ()):
            raise DataError(f"webshop: the snapshot's option {name[:40]!r}: {value[:40]!r} is not one of the product's")


@dataclass(frozen=True, slots=True)
class Shop:
    """The rules for one episode with one goal.

    Attributes:
        catalogue: the products.
        goal: what to buy.
        session: name of the session, part of every URL.
        show_attributes: whether item pages have the "Attributes" button.
        tagger: finds the nouns of a product name, for the reward.
    """

    catalogue: Catalogue
    goal: Goal
    session: str
    show_attributes: bool = False
    tagger: Tagger = rule_tagger

    def product(self, state: ShopState) -> Product:
        """The product of an item, sub or done page."""
        return self.catalogue.product(state.asin)

    def listed(self, state: ShopState) -> tuple[str, ...]:
        """The product ids on a results page."""
        first = (state.number - 1) * PAGE_SIZE
        return self.catalogue.search(state.query).asins[first : state.number * PAGE_SIZE] if first >= 0 else ()

    def buttons(self, state: ShopState) -> tuple[str, ...]:
        """The buttons of a page, in page order."""
        match state.page:
            case "index":
                return ("Search",)
            case "results":
                return ("Back to Search", *(("< Prev",) if state.number > 1 else ()), "Next >")
            case "item":
                attributes = ("Attributes",) if self.show_attributes else ()
                return ("Back to Search", "< Prev", "Description", "Features", "Reviews", *attributes, "Buy Now")
            case "sub":
                return ("Back to Search", "< Prev")
            case _:
                return ()

    def clickables(self, state: ShopState) -> Mapping[str, Click]:
        """Lower-case text -> its target, in the original's order; of equal texts the later one wins."""
        clicks = {text.lower(): Click("button", text) for text in self.buttons(state)}
        if state.page == "results":
            clicks.update((asin.lower(), Click("link", asin)) for asin in self.listed(state))
        elif state.page == "item":
            for name, values in self.product(state).options:
                clicks.update((value, Click("option", name)) for value in values)
        return clicks

    def rejection_reason(self, state: ShopState, action: ShopAction) -> str:
        """Why the action is invalid in this state; "" if it is valid."""
        if action.verb == "search":
            return ""
        if action.verb != "click":
            return f"unknown verb {action.verb[:40]!r}: use search[words] or click[name]"
        if action.argument == "search":
            return "the search button is used by search[words]"
        if action.argument not in self.clickables(state):
            return f"there is nothing called {action.argument[:80]!r} to click on this page"
        return ""

    def act(self, state: ShopState, action: ShopAction) -> ShopState:
        """The state after a valid action."""
        if action.verb == "search":
            return self._results(state, action.argument, 1)
        return self._click(state, action.argument)

    def identity(self, state: ShopState) -> tuple[Any, ...]:
        """What the future depends on: what a query found rather than its words, options without their order."""
        results = self.catalogue.search(state.query).digest if state.query else ""
        kind = page_kind(state, "") if state.page in ("item", "sub") else ""  # where "< prev" leads
        return state.page, results, state.number, state.asin, tuple(sorted(state.options)), state.sub, kind

    def purchase(self, state: ShopState) -> RewardParts:
        """The score of a done page; zeros elsewhere."""
        if state.page != "done":
            return NO_PURCHASE
        chosen = (value for _, value in state.options)
        return score_purchase(self.product(state), self.catalogue.price(state.asin), chosen, self.goal, self.tagger)

    def _results(self, state: ShopState, query: str, number: int) -> ShopState:
        return ShopState("results", query, number, clicked=state.clicked)

    def _click(self, state: ShopState, name: str) -> ShopState:
        if name == "buy now":
            return replace(state, page="done", sub="")
        if name == "back to search":
            return INDEX
        if name in ("next >", "< prev"):
            kind = page_kind(state, self.session)
            if kind == "search_results":
                return self._results(state, state.query, state.number + (1 if name == "next >" else -1))
            if name == "< prev" and kind == "item_sub_page":
                return replace(state, page="item", sub="")
            if name == "< prev" and kind == "item_page":
                return self._results(state, state.query, state.number)
        if name in SUB_PAGES:
            return replace(state, page="sub", sub=SUB_PAGES[name])
        return self._item(state, name)

    def _item(self, state: ShopState, name: str) -> ShopState:
        kind, target = self.clickables(state)[name]
        if kind == "link":
            return replace(state, page="item", asin=target, clicked=state.clicked | {target})
        if kind == "option":
            return replace(state, page="item", options=tuple((dict(state.options) | {target: name}).items()))
        return replace(state, page="item", sub="")


@lru_cache(maxsize=4096)
def suggested_searches(instruction: str) -> tuple[str, ...]:
    """Searches made from the text of an instruction; at least one.

    >>> suggested_searches("Find me light tents with color: red, and price lower than 40.00 dollars")
    ('find me light tents with color: red', 'find me light tents')
    >>> suggested_searches("Show me light tents. I want red. Pay 40.00 dollars at most.")
    ('show me light tents. i want red', 'show me light tents')
    """
    text = searchable(instruction).partition(", and price lower than")[0]
    sentences = [sentence for sentence in text.rstrip(".").split(". ") if "dollars" not in sentence]
    wish = ". ".join(sentences)
    short = sentences[0] if sentences else ""
    if len(sentences) == 1 and ": " in wish:
        short = wish.rpartition(" with ")[0]
    return tuple(text for text in dict.fromkeys((wish, short)) if text) or ("anything",)


def listed_actions(shop: Shop, state: ShopState) -> tuple[str, ...]:
    """Action texts for this state, in page order; all are admissible."""
    searches = (
        [f"search[{text}]" for text in suggested_searches(shop.goal.instruction)] if state.page == "index" else []
    )
    clicks = (ShopAction("click", text) for text in shop.clickables(state) if text != "search")
    return (*searches, *(str(click) for click in clicks if parse_action(str(click)) == click))
