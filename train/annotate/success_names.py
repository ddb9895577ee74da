"""Names as symbols: every uncommon word of an episode becomes a number.

A model made from nothing cannot know names it never met, and needs not: what a name says about an episode is where else
it stands. With symbols equality is equality of tokens, and a model learns it from episodes about other names.

Numbers are dealt in an order of the episode's own, drawn by its first text: counted from 1, they would tell how early a
word appeared, and a model would learn from that how questions of the training kinds begin.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from hashlib import blake2b
from typing import Final

__all__ = ["SYMBOLS", "common_words", "symbolic"]

SYMBOLS: Final = 160  # distinct uncommon words of an episode; any beyond share one symbol
_WORD: Final = re.compile(r"\w+")


def common_words(texts: Iterable[str], count: int) -> tuple[str, ...]:
    """The ``count`` most frequent words, in lower case, sorted; a text that recurs counts once.

    >>> common_words(["the town", "the tower", "a town"], 2)
    ('the', 'town')
    """
    counts: Counter[str] = Counter()
    for text in dict.fromkeys(texts):
        counts.update(word.lower() for word in _WORD.findall(text))
    first = sorted(counts, key=lambda word: (-counts[word], word))[:count]
    return tuple(sorted(first))


def symbolic(common: Collection[str]) -> Callable[[str], str]:
    """A rewriter of one episode's texts, in order; it remembers which word has which symbol.

    >>> rewrite = symbolic({"who", "taught", "lived", "in"})
    >>> rewrite("Who taught Rasmin Lee?"), rewrite("Lee lived in Elm.")
    ('Who taught n2 n109?', 'n109 lived in n62.')
    """
    order: list[int] = []
    numbers: dict[str, int] = {}

    def symbol(match: re.Match[str]) -> str:
        word = match[0].lower()
        if word in common:
            return match[0]
        if word not in numbers:
            numbers[word] = order[min(len(numbers), SYMBOLS - 1)]
        return f"n{numbers[word]}"

    def rewrite(text: str) -> str:
        if not order:
            order.extend(_dealt(text))
        return _WORD.sub(symbol, text)

    return rewrite


def _dealt(text: str) -> list[int]:
    """The numbers 1 to ``SYMBOLS`` in an order that the text decides, on every machine alike."""
    seed = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return sorted(range(1, SYMBOLS + 1), key=lambda i: blake2b(seed + bytes([i]), digest_size=8).digest())
