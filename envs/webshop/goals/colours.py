"""The reduction of option values to a colour word, before they are compared; the order of the words matters."""

from __future__ import annotations

from functools import lru_cache

__all__ = ["COLOURS", "reduce_colour"]

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
