"""The difficulty of a catalogue, measured with simple baselines: the target figures of the embedded catalogue."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from creditflow.envs.webshop.catalogue.catalogue import Catalogue
from creditflow.envs.webshop.catalogue.products import Product
from creditflow.envs.webshop.goals.goals import Goal
from creditflow.envs.webshop.goals.nouns import Tagger, rule_tagger
from creditflow.envs.webshop.reward import score_purchase

__all__ = ["Difficulty", "chosen_by_text", "measure"]


@dataclass(frozen=True, slots=True)
class Difficulty:
    """Fractions of goals, in [0, 1].

    Attributes:
        whole_1, whole_10, whole_50: the goal's product is among the first 1, 10, 50 results of its instruction.
        short_1, short_10, short_50: the same, searching for query and attributes only.
        first_score, first_success: buying the first result of the instruction without choosing options.
        text_score, text_success: buying it with the options whose text occurs in the instruction.
        right_success: buying the goal's own product without choosing options.
    """

    whole_1: float
    whole_10: float
    whole_50: float
    short_1: float
    short_10: float
    short_50: float
    first_score: float
    first_success: float
    text_score: float
    text_success: float
    right_success: float


def chosen_by_text(product: Product, text: str) -> dict[str, str]:
    """For every option group the longest value that occurs in the lower-case text, if any."""
    chosen = {}
    for name, values in product.options:
        mentioned = [value for value in values if value and value in text]
        if mentioned:
            chosen[name] = max(mentioned, key=len)
    return chosen


def measure(catalogue: Catalogue, goals: Iterable[Goal], tagger: Tagger = rule_tagger) -> Difficulty:
    """Measure the difficulty of some goals.

    Args:
        catalogue: the products.
        goals: goals over them, at least one.
        tagger: finds the nouns of a product name, for the score.
    """
    rows = []
    for goal in goals:
        text = goal.instruction.lower()
        full_hits = catalogue.search(text).asins
        short = catalogue.search(f"{goal.query} {' '.join(goal.attributes)}".lower()).asins

        def buy(asin: str, chosen: Iterable[str], goal: Goal = goal) -> float:
            return score_purchase(catalogue.product(asin), catalogue.price(asin), chosen, goal, tagger).score

        first = full_hits[0] if full_hits else goal.asin
        plain = buy(first, ())
        informed = buy(first, chosen_by_text(catalogue.product(first), text).values())
        ranked = [goal.asin in hits[:k] for hits in (full_hits, short) for k in (1, 10, 50)]
        rows.append([*ranked, plain, plain == 1.0, informed, informed == 1.0, buy(goal.asin, ()) == 1.0])
    return Difficulty(*np.mean(np.array(rows, float), axis=0).tolist())
