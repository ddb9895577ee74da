"""When a text mentions an entity: two rules, and one automaton that finds all mentions of all names in one pass.

The normalised rule compares *token sequences*, so "Ann" is not in "annual". Han characters, kana and other scripts
written without spaces are split into single characters, so that a name is found inside a sentence there too. Every
part of the package that asks whether a text names something asks here.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

import numpy as np
from ahocorasick_rs import BytesAhoCorasick

from creditflow.envs.errors import unknown_name_error

__all__ = [
    "MATCH_RULES",
    "EntityMatcher",
    "Lexicon",
    "MatchRule",
    "exact_substring",
    "normalised_phrase",
    "phrase_tokens",
]

MatchRule = Literal["normalised", "exact_substring"]
MATCH_RULES: Final[tuple[MatchRule, ...]] = ("normalised", "exact_substring")

# scripts written without spaces: one token a character
_UNSPACED: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_TOKEN: Final = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
_UNSPACED_RUN: Final = re.compile(f"[{_UNSPACED}]")
_SPACE: Final = 0x20
# UTF-8 in one table: ASCII letters to lower case, what is no letter or digit to a space, bytes beyond ASCII as they are
_TABLE: Final = bytes(i if i > 127 else ord(chr(i).lower()) if chr(i).isalnum() else _SPACE for i in range(256))
_SHORT: Final = 256  # bytes up to which splitting is faster than arrays
_MANY: Final = 64  # kinds of gaps beyond ASCII; more of them are left to the slow way


def phrase_tokens(text: str) -> tuple[str, ...]:
    """NFKC, case folding, everything that is no letter or digit to a space; then words.

    >>> phrase_tokens("São-Paulo's  東京都")
    ('são', 'paulo', 's', '東', '京', '都')
    """
    if text.isascii():
        return tuple(_TOKEN.findall(text.lower()))
    return tuple(_TOKEN.findall(unicodedata.normalize("NFKC", text).casefold()))


def _spaced(text: str) -> bytes:
    """The tokens of a text in UTF-8, one space before, between and after them: ``b" são paulo "``.

    The same tokens as ``phrase_tokens``; a phrase occurs in a text if and only if its spaced form does. Passages of a
    megabyte are common, so words are not made one by one: whole-array operations drop what parts them.
    """
    if text.isascii():
        data = text.encode("ascii")
    else:
        text = unicodedata.normalize("NFKC", text).casefold()
        data = text.encode("utf-8", "surrogatepass")
        units = np.frombuffer(data, np.uint8)
        wide = set(units[units > 127].tobytes().decode("utf-8", "surrogatepass"))
        gaps = [character for character in wide if not character.isalnum()]
        if len(gaps) > _MANY or _UNSPACED_RUN.search("".join(wide)):
            return " ".join(["", *_TOKEN.findall(text), ""]).encode()
        for gap in gaps:
            data = data.replace(gap.encode("utf-8", "surrogatepass"), b" ")
    if len(data) < _SHORT:
        words = data.translate(_TABLE).split()
        return b" ".join([b"", *words, b""]) if words else b" "
    units = np.frombuffer(data.translate(_TABLE), np.uint8)
    keep = units != _SPACE
    keep[1:] |= keep[:-1].copy()  # one gap after each word
    kept: bytes = units[keep].tobytes()
    return b" " + kept if not kept or kept.endswith(b" ") else b" %b " % kept


def _exact(text: str) -> bytes:
    """The text in UTF-8, lone surrogates included: a substring of characters is one of bytes, and the other way."""
    return text.encode("utf-8", "surrogatepass")


def exact_substring(entity: str, text: str) -> bool:
    """E-GRPO's rule: the full phrase, character for character. The empty phrase never matches."""
    return bool(entity) and entity in text


def normalised_phrase(entity: str, text: str) -> bool:
    """Whether the entity's tokens occur in the text's, contiguously. An entity without tokens never matches.

    >>> normalised_phrase("Ann", "annual report"), normalised_phrase("New York", "a New-York paper")
    (False, True)
    """
    phrase = _spaced(entity)
    return phrase != _spaced("") and phrase in _spaced(text)


class EntityMatcher:
    """Which of many entities a text mentions, in time linear in the text.

    >>> matcher = EntityMatcher([("Ann",), ("London", "Londinium"), ("New York",), ("York",)])
    >>> matcher.found("The annual report of LONDINIUM, New-York")
    (1, 2, 3)

    Mentions may overlap: "New York" mentions York too. A trajectory's texts are asked about one by one as they come,
    a phrase never goes across two of them. Time and memory also grow with the number of mentions.

    Args:
        entities: written forms of each; a form that is empty by the rule matches nothing, equal forms may belong to
            several entities.
        rule: "normalised" (tokens, see ``normalised_phrase``) or "exact_substring" (see there).

    Attributes:
        unmatchable: numbers of the entities that no text can mention, for none of their forms can match; whoever counts
            entities leaves them out.

    Raises:
        ConfigError: unknown rule.
    """

    def __init__(self, entities: Iterable[Sequence[str]], rule: MatchRule = "normalised") -> None:
        if rule not in MATCH_RULES:
            raise unknown_name_error("matching rule", str(rule), MATCH_RULES)
        self._read = _spaced if rule == "normalised" else _exact
        owners: dict[bytes, list[int]] = {}
        nothing = self._read("")
        unmatchable = []
        for number, forms in enumerate(entities):
            patterns = {pattern: None for form in forms if (pattern := self._read(form)) != nothing}
            for pattern in patterns:
                owners.setdefault(pattern, []).append(number)
            if not patterns:
                unmatchable.append(number)
        self.unmatchable = tuple(unmatchable)
        self._owners = [tuple(numbers) for numbers in owners.values()]
        self._automaton = BytesAhoCorasick(list(owners)) if owners else None

    def __len__(self) -> int:
        """Distinct written forms that can match."""
        return len(self._owners)

    def found(self, text: str) -> tuple[int, ...]:
        """Numbers of the entities that the text mentions, rising."""
        patterns = {pattern for pattern, _, _ in self._matches(text)}
        return tuple(sorted({number for pattern in patterns for number in self._owners[pattern]}))

    def in_order(self, text: str) -> tuple[int, ...]:
        """Numbers in order of first mention, each once; from the left, the longest form wins and none overlap."""
        found: dict[int, None] = {}
        free = 0  # where the next mention may begin
        for pattern, start, end in sorted(self._matches(text), key=lambda match: (match[1], -match[2])):
            if start >= free:
                found.update(dict.fromkeys(self._owners[pattern]))
                free = end - 1 if self._read is _spaced else end  # neighbours share the space between them
        return tuple(found)

    def _matches(self, text: str) -> list[tuple[int, int, int]]:
        """All mentions: (form, first byte, end)."""
        if self._automaton is None:
            return []
        return self._automaton.find_matches_as_indexes(self._read(text), overlapping=True)


class Lexicon:
    """All mentions of many names, the longest first.

    Args:
        names: written form to what it names; forms without tokens are left out, and of two forms with the same tokens
            the first one stays.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        first: dict[bytes, tuple[str, str]] = {}
        for form, name in names.items():
            first.setdefault(_spaced(form), (form, name))
        self._names = [name for _, name in first.values()]
        self._matcher = EntityMatcher((form,) for form, _ in first.values())

    def __len__(self) -> int:
        return len(self._matcher)

    def mentions(self, text: str) -> tuple[str, ...]:
        """Names mentioned in the text, in order of first mention, each once; mentions do not overlap."""
        return tuple(dict.fromkeys(self._names[number] for number in self._matcher.in_order(text)))
