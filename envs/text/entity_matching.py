"""Entity matching: two rules for mentions, and one automaton that finds all mentions of all names in one pass.

The normalised rule compares *token sequences*, so "Ann" is not in "annual". Han characters, kana and other scripts
written without spaces are split into single characters, so that a name is found inside a sentence there too. Every
mention test of the package goes through this module.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

import numpy as np

from creditflow.envs.errors import unknown_name_error

__all__ = [
    "MATCH_RULES",
    "EntityMatcher",
    "Lexicon",
    "MatchRule",
    "exact_substring",
    "normalized_phrase",
    "phrase_tokens",
]

MatchRule = Literal["normalized", "exact_substring"]
MATCH_RULES: Final[tuple[MatchRule, ...]] = ("normalized", "exact_substring")

# scripts written without spaces: every character is a token
_UNSPACED: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_TOKEN: Final = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
_UNSPACED_RUN: Final = re.compile(f"[{_UNSPACED}]")
_SPACE: Final = 0x20
# byte translation: ASCII letters to lower case, other ASCII characters but digits to a space, bytes beyond ASCII unchanged
_ASCII: Final = bytes(ord(chr(i).lower()) if chr(i).isalnum() else _SPACE for i in range(128))
_TABLE: Final = _ASCII + bytes(range(128, 256))
_MAX_SPLIT: Final = 256  # bytes up to which splitting is faster than arrays
_MAX_SEPARATORS: Final = 64  # distinct non-ASCII separators; texts with more take the slow path


def phrase_tokens(text: str) -> tuple[str, ...]:
    """Return the words of a text after NFKC and case folding; only letters and digits belong to words.

    >>> phrase_tokens("São-Paulo's  東京都")
    ('são', 'paulo', 's', '東', '京', '都')
    """
    if text.isascii():
        return tuple(_TOKEN.findall(text.lower()))
    return tuple(_TOKEN.findall(unicodedata.normalize("NFKC", text).casefold()))


def _spaced(text: str) -> bytes:
    """Return the tokens of a text in UTF-8, with one space before, between and after them: ``b" são paulo "``.

    The tokens are those of ``phrase_tokens``; a phrase occurs in a text if and only if its spaced form does. Passages
    of a megabyte are common, so array operations remove the separators of all words at once.
    """
    if text.isascii():
        data = text.encode("ascii")
    else:
        text = unicodedata.normalize("NFKC", text).casefold()
        data = text.encode("utf-8", "surrogatepass")
        units = np.frombuffer(data, np.uint8)
        wide = set(units[units > 127].tobytes().decode("utf-8", "surrogatepass"))
        separators = [character for character in wide if not character.isalnum()]
        if len(separators) > _MAX_SEPARATORS or _UNSPACED_RUN.search("".join(wide)):
            return " ".join(["", *_TOKEN.findall(text), ""]).encode()
        for separator in separators:
            data = data.replace(separator.encode("utf-8", "surrogatepass"), b" ")
    if len(data) < _MAX_SPLIT:
        words = data.translate(_TABLE).split()
        return b" ".join([b"", *words, b""]) if words else b" "
    units = np.frombuffer(data.translate(_TABLE), np.uint8)
    keep = units != _SPACE
    keep[1:] |= keep[:-1].copy()  # one space after each word
    bytes_kept: bytes = units[keep].tobytes()
    return b" " + bytes_kept if not bytes_kept or bytes_kept.endswith(b" ") else b" %b " % bytes_kept


def _exact(text: str) -> bytes:
    """Return the text in UTF-8 with lone surrogates, so that substrings of characters and of bytes correspond."""
    return text.encode("utf-8", "surrogatepass")


def exact_substring(entity: str, text: str) -> bool:
    """Return whether the text contains the phrase, character for character (E-GRPO's rule); the empty one never matches."""
    return bool(entity) and entity in text


def normalized_phrase(entity: str, text: str) -> bool:
    """Return whether the entity's tokens occur contiguously in the text's; an entity without tokens never matches.

    >>> normalized_phrase("Ann", "annual report"), normalized_phrase("New York", "a New-York paper")
    (False, True)
    """
    phrase = _spaced(entity)
    return phrase != _spaced("") and phrase in _spaced(text)


class EntityMatcher:
    """Finds which of many entities a text mentions, in time linear in the text and the number of mentions.

    >>> matcher = EntityMatcher([("Ann",), ("London", "Londinium"), ("New York",), ("York",)])
    >>> matcher.found("The annual report of LONDINIUM, New-York")
    (1, 2, 3)

    Mentions may overlap: "New York" mentions York too. The texts of a trajectory are matched one by one, so no mention
    extends over two of them.

    Args:
        entities: written forms of each entity; a form that is empty under the rule matches nothing, and equal forms may
            belong to several entities.
        rule: "normalized" (tokens, see ``normalized_phrase``) or "exact_substring" (characters, see ``exact_substring``).

    Attributes:
        unmatchable: numbers of the entities none of whose forms can match; counts of entities leave them out.

    Raises:
        ConfigError: unknown rule.
    """

    def __init__(self, entities: Iterable[Sequence[str]], rule: MatchRule = "normalized") -> None:
        if rule not in MATCH_RULES:
            raise unknown_name_error("matching rule", str(rule), MATCH_RULES)
        self._read = _spaced if rule == "normalized" else _exact
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
        if owners:
            # compiled, and needed by entity graphs alone: offline machines without it run everything else (tests/gpu)
            from ahocorasick_rs import BytesAhoCorasick
        self._automaton = BytesAhoCorasick(list(owners)) if owners else None

    def __deepcopy__(self, memo: dict[int, object]) -> EntityMatcher:
        """Return the matcher itself, in which nothing changes."""
        del memo
        return self

    def __len__(self) -> int:
        """Number of distinct written forms that can match."""
        return len(self._owners)

    def found(self, text: str) -> tuple[int, ...]:
        """Return the numbers of the entities that the text mentions, ascending."""
        patterns = {pattern for pattern, _, _ in self._matches(text)}
        return tuple(sorted({number for pattern in patterns for number in self._owners[pattern]}))

    def in_order(self, text: str) -> tuple[int, ...]:
        """Return numbers in order of first mention, each once; leftmost longest mentions, without overlap."""
        entities: dict[int, None] = {}
        free = 0  # start of the unmatched rest
        for pattern, start, end in sorted(self._matches(text), key=lambda match: (match[1], -match[2])):
            if start >= free:
                entities.update(dict.fromkeys(self._owners[pattern]))
                free = end - 1 if self._read is _spaced else end  # adjacent mentions share the space between them
        return tuple(entities)

    def _matches(self, text: str) -> list[tuple[int, int, int]]:
        """Return all mentions: (form, first byte, end)."""
        if self._automaton is None:
            return []
        return self._automaton.find_matches_as_indexes(self._read(text), overlapping=True)


class Lexicon:
    """Finds mentions of many names, the longest where they overlap.

    Args:
        names: written form -> name; forms without tokens are dropped, and of two forms with the same tokens the first
            one is kept.
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
        """Return the names mentioned in the text, in order of first mention, each once, without overlap."""
        return tuple(dict.fromkeys(self._names[number] for number in self._matcher.in_order(text)))
