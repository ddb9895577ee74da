"""The nouns of a product name, by which the reward compares goal and purchase.

The original uses spaCy's ``en_core_web_sm``. Here a tagger is any function from a name to its nouns; the default needs
no model: a word counts as a noun unless it is a number, a unit, or on a list of closed-class words and of adjectives
common in product names. ``spacy_tagger`` gives the original's nouns where spaCy and the model are installed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from creditflow.envs.errors import MissingExtraError, check_name

__all__ = ["Tagger", "named_tagger", "rule_tagger", "spacy_tagger"]

Tagger = Callable[[str], tuple[str, ...]]
"""Name of a product -> its nouns in lower case, repeats kept."""

_WORD = re.compile(r"[^\W_]+(?:['’&.][^\W_]+)*", re.UNICODE)
_CLOSED_CLASS = """
a an the this that these those and or but nor so yet for of in on at by to from with without into onto over under
up down out off as than per via if while when where who which what all any both each every no not only own same
such too very just more most other some i you he she it we they me him her us them my your his its our their is
are was were be been being am do does did have has had can could may might must shall should will would
"""
_VERBS = """
includes including compatible designed fits fit made get buy keep use used using inspired approved certified
assembled upholstered padded quilted lined insulated removable adjustable foldable rechargeable
"""
_ADJECTIVES_AND_UNITS = """
new old big small large extra mini long short tall high low wide narrow slim thick thin heavy light lightweight
soft hard warm cool hot cold dry wet clean fresh natural organic pure vegan free gluten-free sugar-free real fake
faux modern classic vintage retro rustic elegant casual formal sexy cute funny beautiful comfortable comfy cozy
breathable waterproof durable portable wireless digital electric electronic automatic manual universal
professional premium deluxe luxury perfect great best good nice super ultra multi double single dual triple full
half round square flat oval sleeveless seamless stretchy plus maximum minimum strong smooth shiny matte clear
transparent dark bright deep pale black white red blue green yellow orange purple pink brown gray grey beige navy
ivory golden spicy sweet sour salty crunchy creamy fat-free low-carb first second third inch inches oz ounce
ounces fl lb lbs pound pounds ml cm mm kg g ft gal
"""
_OTHER_WORDS = frozenset((_CLOSED_CLASS + _VERBS + _ADJECTIVES_AND_UNITS).split())


@lru_cache(maxsize=1 << 14)
def rule_tagger(name: str) -> tuple[str, ...]:
    """Nouns by exclusion, without a model.

    >>> rule_tagger("Soft Cotton Towels, Set of 4")
    ('cotton', 'towels', 'set')
    """
    words = (word.lower() for word in _WORD.findall(name))
    return tuple(word for word in words if not word[0].isdigit() and len(word) > 1 and word not in _OTHER_WORDS)


def spacy_tagger(model: str = "en_core_web_sm") -> Tagger:
    """The original's tagger: tokens that spaCy tags NOUN or PROPN.

    Raises:
        MissingExtraError: spaCy or the model is not installed.
    """
    try:
        import spacy

        pipeline = spacy.load(model)
    except (ImportError, OSError) as error:
        raise MissingExtraError(f"spaCy with its model (python -m spacy download {model})", "webshop") from error

    @lru_cache(maxsize=1 << 14)
    def nouns(name: str) -> tuple[str, ...]:
        return tuple(token.text.lower() for token in pipeline(name) if token.pos_ in ("NOUN", "PROPN"))

    return nouns


def named_tagger(name: str) -> Tagger:
    """The tagger "rules" or "spacy".

    Raises:
        ConfigError: another name.
        MissingExtraError: spaCy or its model is not installed.
    """
    check_name("tagger", name, ("rules", "spacy"))
    return rule_tagger if name == "rules" else _spacy()


@lru_cache(maxsize=1)
def _spacy() -> Tagger:
    return spacy_tagger()
