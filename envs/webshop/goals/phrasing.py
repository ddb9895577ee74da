"""The wording of the embedded shop's goals: a few templates that state all requirements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from creditflow.envs.webshop.catalogue.products import Product

if TYPE_CHECKING:
    from creditflow.envs.webshop.catalogue.embedded import RandomSource

__all__ = ["phrase"]

_OPENINGS: Final = (
    "I am looking for {things}",
    "Please get me {things}",
    "I would like to buy {things}",
    "Could you find {things}",
    "We need {things}",
    "Show me {things}",
)
_WISHES: Final = (" that offer {a}", " known for {a}", ", important to me: {a}", " described as {a}")
_PRICES: Final = (
    "My limit is {cap:.2f} dollars",
    "It has to cost {cap:.2f} dollars or less",
    "I can spend up to {cap:.2f} dollars",
)
_REWORDED: Final = {
    "ounce": "oz",
    "pound": "lb",
    "inch": "in",
    "ft": "foot",
    "x-small": "extra small",
    "xx-small": "double extra small",
    "x-large": "extra large",
    "xx-large": "double extra large",
    "3x-large": "triple extra large",
    "petite small": "small petite",
    "small tall": "tall small",
    "medium tall": "tall medium",
    "large tall": "tall large",
    "2 pack": "two-pack",
    "3 pack": "three-pack",
    "4 pack": "four-pack",
    "6 pack": "six-pack",
    "pack of 8": "box of eight",
    "pack of 12": "dozen",
    "grey": "gray",
    "light grey": "light gray",
    "men": "a man",
    "women": "a lady",
}


def _reword(value: str) -> str:
    """Another wording of an option value: "8 oz" for "8 ounce"."""
    if value in _REWORDED:
        return _REWORDED[value]
    number, _, unit = value.rpartition(" ")
    return f"{number} {_REWORDED[unit]}" if number and unit in ("ounce", "pound", "inch", "ft") else value


def _list(items: Sequence[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def phrase(
    product: Product,
    attributes: Sequence[str],
    options: Sequence[tuple[str, str]],
    cap: float,
    rng: RandomSource,
    reworded: bool,
) -> str:
    """The instruction of a goal: product, attributes, options and price cap.

    Args:
        product: the goal's product.
        attributes: wanted attributes, at least one.
        options: wanted (group, value) pairs.
        cap: highest price in dollars.
        rng: picks the wording.
        reworded: word sizes and counts differently from the shop.
    """
    if reworded:
        options = [(name, _reword(value)) for name, value in options]
    split = rng.below(len(attributes) + 1)
    before, after = attributes[:split], attributes[split:]
    things = f"{_list(before)} {product.query}" if before else product.query
    text = rng.choice(_OPENINGS).format(things=things)
    if after:
        text += rng.choice(_WISHES).format(a=_list(after))
    if options:
        if rng.bernoulli(50):
            text += ". Choose " + _list([f"{name}: {value}" for name, value in options])
        else:
            text += ". I want it in " + _list(
                [f"{value} {name}" if name != "size" else f"size {value}" for name, value in options]
            )
    return f"{text}. {rng.choice(_PRICES).format(cap=cap)}."
