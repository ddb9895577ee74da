"""Names by where they stood: what a model made from nothing is shown instead of texts.

Such a model cannot know names it never met, and needs not: what a name says about an episode is where else it stands.
So a name is written as one word that says how many turns ago the episode first showed it and, if this is not the turn
that last showed it, how many turns ago that was: "new", "asked" (it stands in the first observation, the question),
"age2", "age2last1". Two names of the same standing look the same. Of all other words only the most frequent are kept:
a word that only some questions use would teach a model nothing about other questions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Final

__all__ = ["by_origin", "plain_words"]

OLDEST: Final = 4  # turns; whatever is older looks the same
_WORD: Final = re.compile(r"\[\d+\]|\w+")
_FIRST: Final = re.compile(r"(?:^|[.?!:] |\n)(\w+)")


def plain_words(texts: Iterable[str]) -> tuple[str, ...]:
    """Words that are no names, the most frequent first: those seldom capitalised but where a sentence begins.

    A text that recurs counts once.

    >>> plain_words(["The town of Elm.", "The tower.", "It is the tower of Ann."])
    ('the', 'of', 'tower', 'is', 'it', 'town')
    """
    every: Counter[str] = Counter()
    capital: Counter[str] = Counter()
    for text in dict.fromkeys(texts):
        words = _WORD.findall(text)
        every.update(word.lower() for word in words)
        capital.update(word.lower() for word in words if not word.islower())
        capital.subtract(word.lower() for word in _FIRST.findall(text) if not (word.islower() or word.isdigit()))
    return tuple(sorted((word for word in every if 2 * capital[word] <= every[word]), key=lambda w: (-every[w], w)))


def by_origin(plain: Collection[str], kept: Collection[str]) -> Callable[[str], str]:
    """A rewriter of one episode's texts, which come in order: observation, action, observation and so on.

    A name is a run of words that begin with a capital or a digit and are not plain.

    Args:
        plain: words that are no names, in lower case.
        kept: those of them that stay.

    >>> rewrite = by_origin({"who", "taught", "lived", "in", "search"}, {"who", "search"})
    >>> [rewrite(text) for text in ("Who taught Rasmin Lee?", "search: Rasmin Lee", "Rasmin Lee lived in Elm.")]
    [' who asked', ' search asked', ' askedlast1 new']
    """
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    texts = 0

    def written(name: str, turn: int) -> str:
        if name not in first:
            first[name] = last[name] = turn
            return "new" if turn else "asked"
        since, age = turn - last[name], turn - first[name]
        last[name] = turn
        word = f"age{min(age, OLDEST)}" if first[name] else "asked"
        return f"{word}last{min(since, OLDEST)}" if since else word

    def rewrite(text: str) -> str:
        nonlocal texts
        turn, texts = texts // 2, texts + 1
        units: list[str] = []
        run: list[str] = []
        end = -1
        for match in _WORD.finditer(text):
            word = match[0].lower()
            named = (match[0][0].isupper() or match[0][0].isdigit()) and word not in plain
            if run and not (named and match.start() == end + 1):
                units.append(written(" ".join(run), turn))
                run.clear()
            if named:
                run.append(word)
                end = match.end()
            elif word in kept or word.startswith("["):
                units.append(word)
        if run:
            units.append(written(" ".join(run), turn))
        return "".join(f" {unit}" for unit in units)

    return rewrite
