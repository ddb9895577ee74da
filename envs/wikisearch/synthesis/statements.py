"""Statements of a passage about its page's subject: (relation, names of the objects).

Only sentences whose subject is the page's subject are read: the first one of a page, and those that begin with its name, a
pronoun or "The film". Patterns find what they know and nothing else; whatever they read wrongly is a wrong question,
so a cue inside a clause about something else ("based on the novel by …") is not read.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from creditflow.envs.text.entity_matching import phrase_tokens
from creditflow.envs.wikisearch.synthesis.definitions import BORN_AT, Definition, definition_of, sentences_of
from creditflow.envs.wikisearch.synthesis.names import names_at
from creditflow.envs.wikisearch.synthesis.relations import BY_VERB, CUES, NOUN_BY, RELATIONS, SUNG

__all__ = ["PassageStatements", "plain_title", "read_statements"]

_VERBS: Final = "directed|written|scripted|authored|produced|composed|performed|recorded|sung|created|developed|published|distributed|released|founded|established|owned"
_BY: Final = re.compile(
    rf"\b((?:co-)?(?:{_VERBS})(?:(?:,? and |, )(?:co-)?(?:{_VERBS}|edited|filmed|narrated|arranged))*) by\b"
)
_NOUN_BY: Final = re.compile(rf"\b({'|'.join(NOUN_BY)}) by\b", re.I)
_OTHER_MAKER: Final = re.compile(r"[^.;]{0,40}?\b(?:composers?|lyricists?|songwriters?|producers?|directors?)\b")
_CUES: Final = tuple((cue, re.compile(cue.pattern)) for cue in CUES)
# before a cue, a clause about something else than the page's subject
_ELSEWHERE: Final = re.compile(
    r"\b(?:based (?:up)?on|adapt(?:ed|ation)|remake|sequel|prequel|inspired by|who|whose|which|that|where|novel by|play by|book by|"
    r"not|former|formerly|when|while|after|before|although|until|song by|film by|alongside|version|said|claimed|may have|"
    r"story|screenplay|script|teleplay|scenario|music|lyrics|father|mother|brother|sister|parents?|grandson|granddaughter|grandfather|nephew|niece|cousin)\b"
)
_PRONOUN: Final = re.compile(
    r"(?:He|She|It|The (?:film|movie|novel|book|album|song|band|village|town|city|company|series|play))\b"
)
_COPULA_TAIL: Final = 80
MAX_SENTENCE: Final = 1_000  # characters of a sentence that are read


class PassageStatements(NamedTuple):
    """What a passage says about its page's subject.

    Attributes:
        definition: what its first sentence says the subject is.
        facts: (relation, names of the objects) pairs, in the order of the text.
    """

    definition: Definition
    facts: tuple[tuple[str, tuple[str, ...]], ...]


def plain_title(title: str) -> str:
    """A title without a final part in brackets.

    >>> plain_title("Inception (film)")
    'Inception'
    """
    head, _, _ = title.rpartition(" (")
    return head if head and title.endswith(")") else title


def read_statements(title: str, text: str, titles: Collection[tuple[str, ...]]) -> PassageStatements:
    """Read a passage.

    Args:
        title: of the page.
        text: without markup.
        titles: tokens of known names (see ``names_at``).
    """
    page_tokens = phrase_tokens(plain_title(title))
    sentences = [sentence[:MAX_SENTENCE] for sentence in sentences_of(text)]
    if not page_tokens or not sentences:
        return PassageStatements(Definition(), ())
    first = _about(sentences[0], page_tokens)
    definition = definition_of(sentences[0]) if first else Definition()
    facts: dict[str, tuple[str, ...]] = {relation: (year,) for relation, year in definition.years}
    for number, sentence in enumerate(sentences):
        if (first if number == 0 else _about(sentence, page_tokens) or _PRONOUN.match(sentence)) and definition.noun:
            for relation, names in _facts(sentence, definition, titles, number == 0):
                names = tuple(name for name in names if phrase_tokens(name) != page_tokens)
                if names:
                    facts[relation] = tuple(dict.fromkeys((*facts.get(relation, ()), *names)))
    return PassageStatements(definition, tuple(facts.items()))


def _about(sentence: str, own: tuple[str, ...]) -> bool:
    """Whether a sentence begins with the page's name, or its first or last word."""
    begin = phrase_tokens(sentence[:200])[: len(own) + 8]
    if begin[:1] == ("the",):
        begin = begin[1:]
    start = own[1:] if own[:1] == ("the",) else own
    return begin[: len(start)] == start or begin[:1] in (start[:1], start[-1:])


@lru_cache(maxsize=64)
def _allowed(relation: str, kind: str) -> bool:
    return kind in RELATIONS[relation].subjects


def _facts(
    sentence: str, definition: Definition, titles: Collection[tuple[str, ...]], first: bool
) -> Iterator[tuple[str, tuple[str, ...]]]:
    kind = definition.kind
    for match in _BY.finditer(sentence):
        verbs = re.split(r",? and |, ", match[1])  # "co-written": one of several, of whom the rest may not be told
        relations = {relation for verb in verbs if (relation := BY_VERB.get((kind, verb)))}
        if definition.noun not in SUNG:
            relations.discard("performer")
        if relations and _is_main(sentence, match.start(), definition, first):
            names = names_at(sentence, match.end(), titles, skip=True)
            yield from ((relation, names) for relation in sorted(relations) if names)
    maker = _NOUN_BY.match(sentence, max(0, definition.end - len(definition.noun))) if first else None
    if maker is not None:
        relation = NOUN_BY[maker[1].lower()]
        if _allowed(relation, kind) and not _OTHER_MAKER.match(sentence, maker.end()):
            yield relation, names_at(sentence, maker.end(), titles, skip=True)
    if first and kind == "person" and (born := BORN_AT.search(sentence)):
        yield "birth_place", names_at(sentence, born.end(), titles, skip=False, places=True)
    for cue, pattern in _CUES:
        if not _allowed(cue.relation, kind):
            continue
        for match in pattern.finditer(sentence):
            if _is_main(sentence, match.start(), definition, first, born=cue.relation == "birth_place"):
                places = RELATIONS[cue.relation].object == "place"
                yield cue.relation, names_at(sentence, match.end(), titles, skip=cue.skip, places=places)


def _is_main(sentence: str, at: int, definition: Definition, first: bool, *, born: bool = False) -> bool:
    """Whether what stands before a cue is about the page's subject."""
    if born:
        return not _ELSEWHERE.search(sentence[:at])
    start = definition.end if first else 0
    before = sentence[start:at] if at >= start else sentence[:at]
    return not _ELSEWHERE.search(before) and not re.search(
        r"[a-z][\"”)]? [A-Z][^,;]*\b(?:a|an|the)\b", before[-_COPULA_TAIL:]
    )
