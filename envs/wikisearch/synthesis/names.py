"""Names in a sentence: the object that begins where a cue ends, or several joined by "and"."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final, NamedTuple

from creditflow.envs.text.entity_matching import phrase_tokens

__all__ = ["FoundName", "names_at"]

_TOKEN: Final = re.compile(r"\s*[\"“]?\s*(?P<word>[^\W_][\w'’.&/-]*|&)")
_CONNECTORS: Final = frozenset((
    "of", "the", "de", "la", "del", "da", "di", "du", "des", "van", "von", "der", "den", "al", "le", "el", "bin", "ibn", "y", "e", "und", "&",
))  # fmt: skip
_MONTHS: Final = frozenset((
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
))  # fmt: skip
_NOT_NAMES: Final = frozenset((
    "He", "She", "It", "His", "Her", "Its", "Their", "They", "The", "A", "An", "In", "On", "At", "By", "And", "But", "After", "Before", "During",
    "When", "While", "Where", "Who", "I", "DVD", "VHS", "CD", "Blu-ray", "TV",
))  # fmt: skip
_JOINED: Final = re.compile(r"[\"”]?\s*(?:, and|,|and|&)\s+(?=[\"“]?[A-Z])")
_AND: Final = re.compile(r"[\"”]?\s*(?:, and|and|&)\s+(?=[a-z])")  # before a word that describes the next name
_JOINED_PLACES: Final = re.compile(r"\s+and\s+(?=[A-Z])")  # a comma between places means "in"
_INITIALS: Final = re.compile(r"(?:[A-Z]\.)+(?:[A-Z]\.?)?")
_FUNCTION: Final = frozenset((
    "in", "at", "on", "by", "from", "with", "who", "which", "that", "and", "or", "for", "as", "to", "into", "when", "where", "while", "is", "was",
    "has", "had", "are", "were", "of",
))  # fmt: skip
# of a nation: "French", "Puerto Rican"; only before a word in lower case
_ADJECTIVE: Final = re.compile(
    r"(?:(?:Puerto|South|North|Costa|Sri|Native|African|West|East|British|Anglo)[ -])?"
    r"(?:[A-Z][\w-]*(?:an|ish|ese|ench|utch|ek|wiss|elsh|rab|ic|i)|New Zealand|Hong Kong|Filipino|Jewish|Tamil|Telugu|Kannada|Malayalam|Hindi|Urdu|Thai|Greek|Welsh)(?= [a-z])"
)
_ARTICLE: Final = re.compile(r"\s*(?:nearby |the )?(?:(?:city|town|village|municipality|album) of )?")
MAX_SKIPPED: Final = 6  # words before a name that only describe it
MAX_NAME: Final = 8  # words of a name
MAX_OBJECTS: Final = 5


class FoundName(NamedTuple):
    """A name, and where it ends in the text."""

    name: str
    end: int


def names_at(
    text: str, start: int, titles: Collection[tuple[str, ...]], *, skip: bool, places: bool = False
) -> tuple[str, ...]:
    """The names that begin at ``start``, joined by commas and "and"; () if none does.

    Args:
        text: a sentence.
        start: where the cue ended.
        titles: tokens of known names, of which the longest is preferred.
        skip: whether descriptive words may stand before the first name: words in lower case, and adjectives such as
            "French", which are capitalised and stand before one of those.
        places: names of places, where a comma begins the name of what contains them.

    >>> names_at("by the French writer Émile Zola and Ann Lee in 1890", 2, (), skip=True)
    ('Émile Zola', 'Ann Lee')
    """
    names: list[str] = []
    at = _skipped(text, start) if skip else _after_article(text, start)
    while at is not None and len(names) < MAX_OBJECTS:
        name = _name(text, at, titles)
        if name is None:
            break
        names.append(name.name)
        joined = (_JOINED_PLACES if places else _JOINED).match(text, name.end)
        at = joined.end() if joined else None
        if at is None and skip and (described := _AND.match(text, name.end)):
            at = _skipped(text, described.end())
    return tuple(dict.fromkeys(names))


def _after_article(text: str, at: int) -> int:
    match = _ARTICLE.match(text, at)
    return match.end() if match else at


def _skipped(text: str, at: int) -> int | None:
    """Where a name begins after words that describe it; None if a clause begins first."""
    for _ in range(MAX_SKIPPED):
        match = _TOKEN.match(text, at)
        if match is None:
            return None
        word = match["word"]
        if word[0].islower():
            if word in _FUNCTION or word.endswith(("ing", "ed", "stars")):
                return None  # a clause, not a description
            at = match.end()
            continue
        adjective = _ADJECTIVE.match(text, match.start("word"))
        after = None if adjective is None else _TOKEN.match(text, adjective.end())
        if adjective is None or after is None or not after["word"][0].islower() or after["word"] in _FUNCTION:
            return at
        at = adjective.end()
    return None


def _name(text: str, at: int, titles: Collection[tuple[str, ...]]) -> FoundName | None:
    run = _capitalised(text, at)
    longest = _title(text, at, titles)
    best = longest if longest and (run is None or longest.end >= run.end) else run
    if best is None or text[best.end : best.end + 2] in ("'s", "’s") or best.name in _NOT_NAMES | _MONTHS:
        return None
    return best


def _capitalised(text: str, at: int) -> FoundName | None:
    """The longest run of capitalised words, which may hold connectors such as "of" inside."""
    begin = end = None
    for _ in range(MAX_NAME):
        match = _TOKEN.match(text, at)
        if match is None or (begin is not None and text[at : match.start("word")] != " "):
            break
        raw = match["word"]
        initials = _INITIALS.fullmatch(raw) is not None
        word = raw if initials else raw.rstrip(".'’-/&") or raw
        if not (word[0].isupper() or (begin is not None and (word in _CONNECTORS or word.isdigit()))):
            break
        if raw.endswith(("'s", "’s", "s'", "s’")) or (begin is None and word in _NOT_NAMES | _MONTHS):
            return None
        begin = match.start("word") if begin is None else begin
        if word not in _CONNECTORS:
            end = match.start("word") + len(word)
            if len(raw) > len(word):
                break  # punctuation ends the name
        at = match.end()
    if (
        begin is None
        or end is None
        or _INITIALS.fullmatch(text[begin:end])
        or re.search(r"\s[A-Z]\.$", text[begin:end])
    ):
        return None
    return FoundName(text[begin:end], end)


def _title(text: str, at: int, titles: Collection[tuple[str, ...]]) -> FoundName | None:
    best: FoundName | None = None
    tokens: tuple[str, ...] = ()
    position = at
    begin = None
    for _ in range(MAX_NAME):
        match = _TOKEN.match(text, position)
        if match is None:
            break
        if begin is None:
            if not (match["word"][0].isupper() or match["word"][0].isdigit()):
                return None
            begin = match.start("word")
        elif re.search(r"[,;()\"“”:]", text[position : match.start("word")]):
            break
        tokens = (*tokens, *phrase_tokens(match["word"]))
        position = match.end()
        if tokens in titles:
            end = match.start("word") + len(match["word"].rstrip(".'’"))
            best = FoundName(text[begin:end], end)
    return best
