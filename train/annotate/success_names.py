"""Names as symbols: every uncommon word of an episode becomes a number, in the order in which words first appear.

A model made from nothing cannot know names it never met, and needs not: what a name says about an episode is where else
it stands. With symbols equality is equality of tokens, and a model learns it from episodes about other names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable
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
    ('Who taught n1 n2?', 'n2 lived in n3.')
    """
    numbers: dict[str, int] = {}

    def symbol(match: re.Match[str]) -> str:
        word = match[0].lower()
        if word in common:
            return match[0]
        return f"n{min(numbers.setdefault(word, len(numbers) + 1), SYMBOLS)}"

    return lambda text: _WORD.sub(symbol, text)
