"""When a text mentions an entity: two rules, and a lexicon that finds all mentions in one pass.

The normalised rule compares *token sequences*, so "Ann" is not in "annual". Han characters, kana and other scripts
written without spaces are split into single characters, so that a name is found inside a sentence there too.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

__all__ = ["Lexicon", "exact_substring", "mentioned", "normalised_phrase", "phrase_tokens"]

# scripts written without spaces: one token a character
_UNSPACED: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_TOKEN: Final = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")


def phrase_tokens(text: str) -> tuple[str, ...]:
    """NFKC, case folding, everything that is no letter or digit to a space; then words.

    >>> phrase_tokens("São-Paulo's  東京都")
    ('são', 'paulo', 's', '東', '京', '都')
    """
    if text.isascii():
        return tuple(_TOKEN.findall(text.lower()))
    return tuple(_TOKEN.findall(unicodedata.normalize("NFKC", text).casefold()))


def exact_substring(entity: str, text: str) -> bool:
    """E-GRPO's rule: the full phrase, character for character. The empty phrase never matches."""
    return bool(entity) and entity in text


def normalised_phrase(entity: str, text: str) -> bool:
    """Whether the entity's tokens occur in the text's, contiguously. An entity without tokens never matches.

    >>> normalised_phrase("Ann", "annual report"), normalised_phrase("New York", "a New-York paper")
    (False, True)
    """
    return _contains(phrase_tokens(text), phrase_tokens(entity))


def _contains(tokens: Sequence[str], phrase: Sequence[str]) -> bool:
    n = len(phrase)
    if not n:
        return False
    wanted, first = tuple(phrase), phrase[0]
    return any(token == first and tuple(tokens[i : i + n]) == wanted for i, token in enumerate(tokens))


def mentioned(entities: Iterable[tuple[str, Sequence[str]]], text: str) -> tuple[str, ...]:
    """Names of the entities, in the given order, of which the name or an alias occurs in the text.

    Args:
        entities: (name, aliases) pairs.
        text: any text.
    """
    tokens = phrase_tokens(text)
    return tuple(
        name for name, aliases in entities if any(_contains(tokens, phrase_tokens(form)) for form in (name, *aliases))
    )


class Lexicon:
    """All mentions of many names in one pass over a text, the longest first.

    Args:
        names: written form to what it names; forms without tokens are left out, and of two forms with the same tokens
            the first one stays.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._forms: dict[tuple[str, ...], str] = {}
        longest: dict[str, int] = {}
        for form, name in names.items():
            tokens = phrase_tokens(form)
            if tokens:
                self._forms.setdefault(tokens, name)
                longest[tokens[0]] = max(longest.get(tokens[0], 0), len(tokens))
        self._longest = longest

    def __len__(self) -> int:
        return len(self._forms)

    def mentions(self, text: str) -> tuple[str, ...]:
        """Names mentioned in the text, in order of first mention, each once; mentions do not overlap."""
        tokens = phrase_tokens(text)
        found: dict[str, None] = {}
        i, n = 0, len(tokens)
        while i < n:
            step = 1
            for length in range(min(self._longest.get(tokens[i], 0), n - i), 0, -1):
                name = self._forms.get(tokens[i : i + length])
                if name is not None:
                    found[name] = None
                    step = length
                    break
            i += step
        return tuple(found)
