"""Name anonymisation: names are replaced by where they first and last occurred, for models trained from scratch.

Such a model has no knowledge of names that are not in its training data; what matters about a name is where else it
occurs. A name is therefore replaced by one word with the number of turns since its first occurrence and, if that is not
also its last one, the number of turns since the last: "new", "asked" (it occurs in the first observation, the question),
"age2", "age2last1". Names with equal ages become equal words. Of all other words only the most frequent are kept, because
rare words do not generalise to other questions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Final

__all__ = ["by_origin", "plain_words"]

MAX_AGE: Final = 4  # turns; older names become equal words
_WORD: Final = re.compile(r"\[\d+\]|\w+")
_FIRST: Final = re.compile(r"(?:^|[.?!:] |\n)(\w+)")


def plain_words(texts: Iterable[str]) -> tuple[str, ...]:
    """Words that are not names, the most frequent first: those seldom capitalised except at the start of a sentence.

    Equal texts count once.

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
    """A function that rewrites the texts of one episode, in order: observation, action, observation and so on.

    A name is a run of words that start with a capital or a digit and are not plain.

    Args:
        plain: words that are not names, in lower case.
        kept: those of them that are kept.

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
        word = f"age{min(age, MAX_AGE)}" if first[name] else "asked"
        return f"{word}last{min(since, MAX_AGE)}" if since else word

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
