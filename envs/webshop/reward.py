"""The score of a purchase, with its parts.

    score = (attributes met + options met + [price ≤ cap]) / (attributes + options + 1) · type factor

The type factor, in [0, 1], lowers the score of a product of another kind: see ``type_factor``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from creditflow.envs.webshop.catalogue.products import Product
from creditflow.envs.webshop.goals.colours import reduce_colour
from creditflow.envs.webshop.goals.goals import Goal
from creditflow.envs.webshop.goals.nouns import Tagger
from creditflow.envs.webshop.goals.token_set_ratio import token_set_ratio

__all__ = ["RewardParts", "attributes_met", "option_met", "score_purchase", "type_factor"]

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
