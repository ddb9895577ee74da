"""The "token set ratio": the similarity of two phrases regardless of word order, by which the reward is defined.

Both phrases become sets of words. With I the common words and A, B the phrases rewritten as I followed by the rest of
each, the ratio is the largest of the sequence similarities (I, A), (I, B), (A, B), as a whole per cent. Similarities
are ``difflib``'s, as in the library that the original's reward calls; rapidfuzz uses another measure, which gives other
ratios and sometimes another decision at the threshold of 85.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import lru_cache

__all__ = ["token_set_ratio"]

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
