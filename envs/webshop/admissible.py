"""The listed actions: every admissible click, and on the first page two searches made from the instruction.

Any other search is admissible too, on every page; the set of all searches is infinite. The listed searches are made from
the instruction alone: its text without the price, and its first sentence or the part before the options.
"""

from __future__ import annotations

from functools import lru_cache

from creditflow.envs.webshop.actions import ShopAction, parse_action, searchable
from creditflow.envs.webshop.rules import Shop, ShopState

__all__ = ["listed_actions", "suggested_searches"]


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
    short = wish.rpartition(" with ")[0] if len(sentences) == 1 and ": " in wish else sentences[0] if sentences else ""
    return tuple(text for text in dict.fromkeys((wish, short)) if text) or ("anything",)


def listed_actions(shop: Shop, state: ShopState) -> tuple[str, ...]:
    """Action texts for this state, in page order; all are admissible."""
    searches = (
        [f"search[{text}]" for text in suggested_searches(shop.goal.instruction)] if state.page == "index" else []
    )
    clicks = (ShopAction("click", text) for text in shop.clickables(state) if text != "search")
    return (*searches, *(str(click) for click in clicks if parse_action(str(click)) == click))
