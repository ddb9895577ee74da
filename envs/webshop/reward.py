"""The score of a purchase, with its parts.

    score = (attributes met + options met + [price ≤ cap]) / (attributes + options + 1) · type factor

The type factor, in [0, 1], lowers the score of a product of another kind: see ``type_factor``.

Option values are reduced to a colour word before they are compared; the order of the words matters. Phrases are compared by
the "token set ratio", their similarity regardless of word order. Both become sets of words. With I the common words and A, B
the phrases rewritten as I followed by the rest of each, the ratio is the largest of the sequence similarities (I, A), (I, B),
(A, B), as a whole per cent. Similarities are ``difflib``'s, as in the library that the original's reward calls; rapidfuzz
uses another measure, which gives other ratios and sometimes another decision at the threshold of 85.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from functools import lru_cache
from typing import NamedTuple

from creditflow.envs.webshop.catalogue.products import Product
from creditflow.envs.webshop.goals.goals import Goal
from creditflow.envs.webshop.goals.nouns import Tagger

__all__ = [
    "COLOURS",
    "RewardParts",
    "attributes_met",
    "option_met",
    "reduce_colour",
    "score_purchase",
    "token_set_ratio",
    "type_factor",
]

_WORDS = """
alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy camel
camo caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral cranberry
cream crystal dark denim eggplant elephant espresso fuchsia gold granite grape graphite grass gray green grey
heather indigo ivory ivy khaki lavender lemon leopard light lilac lime magenta maroon mauve merlot midnight
mint mocha multicolor mushroom mustard natural navy nude olive orange peach pewter pink plum purple rainbow
red rose royal rust sand sapphire seashell silver skull slate steel stone stonewash sunflower tan taupe teal
tiger turquoise violet walnut wheat white wine yellow
"""
COLOURS = tuple(_WORDS.split())


@lru_cache(maxsize=1 << 15)
def reduce_colour(option: str | tuple[str, str]) -> str | tuple[str, str]:
    """The first colour word contained in the option, else the option itself.

    In a (group, value) pair only a member that *is* a colour word counts. That is the original's rule, and why
    a goal such as ("color", "dark-navy") is unsolvable: the chosen value becomes "dark", the goal remains a pair.

    >>> reduce_colour("dark-navy"), reduce_colour(("color", "navy")), reduce_colour(("color", "dark-navy"))
    ('dark', 'navy', ('color', 'dark-navy'))
    """
    for colour in COLOURS:
        if colour in option:
            return colour
    return option


_LATIN_1 = re.compile("[\x80-\xff]")
_NOT_WORD = re.compile(r"\W")


@lru_cache(maxsize=1 << 15)
def _tokens(text: str) -> frozenset[str]:
    """Words of a phrase, after dropping code points 128-255 and replacing non-word characters by spaces."""
    return frozenset(_NOT_WORD.sub(" ", _LATIN_1.sub("", text)).lower().split())


def _ratio(a: str, b: str) -> int:
    if a == b:
        return 100
    if not a or not b:
        return 0
    return round(100 * SequenceMatcher(None, a, b).ratio())


@lru_cache(maxsize=1 << 16)
def token_set_ratio(a: str, b: str) -> int:
    """Similarity in [0, 100]; 0 if either phrase has no word.

    >>> token_set_ratio("navy blue", "blue, navy"), token_set_ratio("navy", "gravy")
    (100, 67)
    """
    left_tokens, right = _tokens(a), _tokens(b)
    if not left_tokens or not right:
        return 0
    common = left_tokens & right
    if common and common in (left_tokens, right):
        return 100
    shared = " ".join(sorted(common))
    first = f"{shared} {' '.join(sorted(left_tokens - common))}".strip()
    second = f"{shared} {' '.join(sorted(right - common))}".strip()
    return max(_ratio(shared, first), _ratio(shared, second), _ratio(first, second))


SIMILARITY_THRESHOLD = 85  # per cent above which two phrases count as equal


class RewardParts(NamedTuple):
    """The score and its parts; every ``r_`` part lies in [0, 1], the ``w_`` weights sum to 1 (all are 0 before a purchase).

    Attributes:
        score: the reward.
        r_type: the type factor.
        r_att, w_att: fraction of the wanted attributes met, and its weight.
        r_option, w_option: the same for options (0 and 0 if the goal has none).
        r_price, w_price: 1 if the price does not exceed the cap, and its weight.
        query_match, category_match, title_score: what the type factor depends on.
    """

    score: float
    r_type: float
    r_att: float
    w_att: float
    r_option: float
    w_option: float
    r_price: float
    w_price: float
    query_match: bool
    category_match: bool
    title_score: float


NO_PURCHASE = RewardParts(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, False, False, 0.0)


def _category_parts(path: str) -> set[str]:
    return {category.strip() for category in path.split("›")}


def type_factor(product: Product, goal: Goal, tagger: Tagger) -> tuple[float, bool, bool, float]:
    """The factor for the kind of the product.

    1 if the queries are equal, two parts of the category paths agree, or more than a fifth of the wanted name's nouns
    occur in the title; else 0.5. With less than a tenth of the nouns it is 0.1, with none 0, whatever else agrees.

    Returns:
        the factor, query match, category match, fraction of nouns (0.2 if the wanted name has none).
    """
    query_match = product.query == goal.query
    category_match = len(_category_parts(product.product_category) & _category_parts(goal.product_category)) >= 2
    nouns = tagger(goal.name)
    title_score = len(set(tagger(product.title)) & set(nouns)) / len(nouns) if nouns else 0.2
    factor = 1.0 if query_match or category_match or title_score > 0.2 else 0.5
    if title_score < 0.1:
        factor = 0.1 if title_score > 0 else 0.0
    return factor, query_match, category_match, title_score


def attributes_met(product: Product, goal: Goal) -> int:
    """The number of wanted attributes that the product has: similar to one of its attributes, or part of its texts."""
    texts = (product.title.lower(), " ".join(product.bullets).lower(), product.description.lower())
    return sum(
        any(token_set_ratio(attribute, required) > SIMILARITY_THRESHOLD for attribute in product.attributes)
        or any(required in text for text in texts)
        for required in goal.attributes
    )


def option_met(wanted: str | tuple[str, str], chosen: Iterable[str]) -> bool:
    """Whether one of the chosen values counts as the wanted option; a pair is compared as its Python repr."""
    reduced = reduce_colour(wanted)
    text = reduced if isinstance(reduced, str) else str(reduced)
    return any(token_set_ratio(str(reduce_colour(value)), text) > SIMILARITY_THRESHOLD for value in chosen)


def score_purchase(product: Product, price: float, chosen: Iterable[str], goal: Goal, tagger: Tagger) -> RewardParts:
    """Score the purchase of ``product`` with the ``chosen`` option values at ``price`` dollars."""
    factor, query_match, category_match, title_score = type_factor(product, goal, tagger)
    values = tuple(chosen)
    n_attributes, n_options = len(goal.attributes), len(goal.options)
    attributes = attributes_met(product, goal)
    options = sum(option_met(option, values) for option in goal.options)
    cheap = price <= goal.price_cap
    total = n_attributes + n_options + 1
    return RewardParts(
        score=(attributes + options + cheap) / total * factor,
        r_type=factor,
        r_att=attributes / n_attributes if n_attributes else 0.0,
        w_att=n_attributes / total,
        r_option=options / n_options if n_options else 0.0,
        w_option=n_options / total,
        r_price=float(cheap),
        w_price=1 / total,
        query_match=query_match,
        category_match=category_match,
        title_score=title_score,
    )
