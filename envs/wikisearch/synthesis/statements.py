"""Statements of a passage about its page's subject: (relation, names of the objects).

Only sentences whose subject is the page's subject are read: the first one of a page, and those that begin with its name, a
pronoun or "The film". Patterns find what they know and nothing else; whatever they read wrongly is a wrong question,
so a cue inside a clause about something else ("based on the novel by …") is not read.

Definitions are read from the first sentence of a page: Only the words between the copula and the first relative clause or preposition are read: "X is a 1968 Hungarian drama
film directed by …" gives the description "Hungarian drama film", the class "work" and the year 1968.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from creditflow.envs.text.entity_matching import phrase_tokens
from creditflow.envs.wikisearch.synthesis.relations import BY_VERB, CUES, NOUN_BY, RELATIONS, SUNG

__all__ = [
    "BORN_AT",
    "CLASSES",
    "Definition",
    "FoundName",
    "PassageStatements",
    "definition_of",
    "names_at",
    "plain_title",
    "read_statements",
    "sentences_of",
]

_NOUNS: Final = {
    "work": (
        "film movie documentary novel novella book play opera musical song single album ep mixtape poem series sitcom "
        "drama comedy manga anime game painting sculpture symphony ballet memoir soundtrack episode miniseries magazine"
    ),
    "person": (
        "actor actress director filmmaker producer screenwriter writer author novelist poet playwright journalist singer "
        "songwriter musician composer conductor pianist guitarist drummer rapper dancer choreographer model comedian "
        "politician lawyer judge diplomat soldier officer general admiral king queen emperor empress prince princess "
        "duke duchess count countess nobleman noblewoman bishop priest saint scientist physicist chemist biologist "
        "mathematician astronomer engineer inventor philosopher historian economist architect painter sculptor artist "
        "photographer cartoonist footballer player cricketer swimmer athlete runner cyclist boxer wrestler coach manager "
        "businessman businesswoman entrepreneur activist missionary explorer physician surgeon professor scholar "
        "theologian translator editor critic presenter personality cinematographer ruler person"
    ),
    "place": (
        "city town village municipality commune hamlet suburb county district province state country region island river "
        "lake mountain borough township parish neighborhood neighbourhood settlement capital peninsula valley creek "
        "airport station building bridge castle church cathedral park stadium arena museum hotel"
    ),
    "organisation": (
        "company corporation firm band group duo orchestra university college school institute organization organisation "
        "party club team newspaper publisher label studio bank airline manufacturer brand chain agency network channel"
    ),
}
CLASSES: Final = {noun: name for name, nouns in _NOUNS.items() for noun in nouns.split()}

_KIN: Final = frozenset(
    ["son", "daughter", "child", "wife", "husband", "brother", "sister", "mother", "father", "member"]
)
_ORDINAL: Final = re.compile(
    r"(?:(?:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|last|final|only|former|early|late) )+"
)
_COPULA: Final = re.compile(r"\b(?:is|was|are|were) (?:an?|the|one of the) ")
_END: Final = re.compile(
    r"[,;:.()\"“”\[\]–—]| (?:who|which|that|whose|when|where|directed|written|by|in|from|of|for|and|or|as|on|at|with|to|"
    r"based|starring|produced|released|set|located|situated|best|about|is|was|are|were|has|had|playing|loosely|composed|"
    r"created|published|born|founded|owned|between|near|currently|recorded|performed|developed|featuring|into|he|she|it)\b"
)
_YEAR: Final = r"(1[0-9]\d\d|20\d\d)"
_LEADING_YEAR: Final = re.compile(rf"^{_YEAR} ")
_DATE: Final = rf"(?:\d{{1,2}} [A-Z][a-z]+,? |[A-Z][a-z]+ \d{{1,2}}, ?|[A-Z][a-z]+ )?{_YEAR}"
_LIFE: Final = re.compile(rf"\(\s*(?:born |b\. )?{_DATE}[^()]{{0,60}}?[–—-]\s*(?:died )?{_DATE}")
BORN_AT: Final = re.compile(rf"\(\s*(?:born |b\. )?{_DATE},? (?:in )?(?=[A-Z])")  # where a birth place begins
_BORN: Final = re.compile(rf"\bborn (?:on |in )?{_DATE}")
_FOUNDED: Final = re.compile(rf"\b(?:founded|established|incorporated)(?: [^.;,()]{{0,40}}?)? in {_YEAR}\b")
_APPEARED: Final = re.compile(rf"\b(?:released|published|premiered)(?: [^.;,()]{{0,30}}?)? (?:in|on) {_DATE}\b")
# a full stop that ends a sentence: not after an initial or a short title
_STOP: Final = re.compile(
    r"(?<!\b[A-Z])(?<!\b(?:Dr|Mr|St|Jr|Sr|vs|No|Ft|Mt))(?<!\b(?:Mrs|Rev|Gen|Col))[.!?][\"”]? +(?=[A-Z\"“])"
)
MAX_SENTENCES: Final = 40
_WORDS: Final = 6  # of a description


@dataclass(frozen=True, slots=True)
class Definition:
    """What a page's first sentence states about its subject.

    Attributes:
        noun: the last word of the description, in lower case ("film"); "" if the sentence defines nothing.
        description: the noun with its adjectives ("Hungarian drama film").
        kind: "work", "person", "place", "organisation", or "other".
        years: (relation, year) pairs that the sentence states.
        end: where the description ends in the sentence.
    """

    noun: str = ""
    description: str = ""
    kind: str = "other"
    years: tuple[tuple[str, str], ...] = ()
    end: int = 0


def sentences_of(text: str) -> list[str]:
    """Split a text into sentences; at most ``MAX_SENTENCES``."""
    sentences, start = [], 0
    for match in _STOP.finditer(text):
        sentences.append(text[start : match.start() + 1])
        start = match.end()
        if len(sentences) == MAX_SENTENCES:
            return sentences
    return [*sentences, text[start:]] if text[start:] else sentences


def definition_of(sentence: str) -> Definition:
    """Read a defining sentence.

    >>> definition_of("Ground is a 1968 Hungarian drama film directed by Pál Gábor.").years
    (('year', '1968'),)
    """
    copula = _COPULA.search(sentence)
    if copula is None or copula.start() > 200:
        return Definition()
    start = copula.end()
    stop = _END.search(sentence, start)
    end = stop.start() if stop else len(sentence)
    words = sentence[start:end]
    year = _LEADING_YEAR.match(words)
    words = words[year.end() :] if year else words
    words = _ORDINAL.sub("", words, count=1) if _ORDINAL.match(words) else words
    tokens = words.split()
    if tokens and tokens[-1].lower() in _KIN:
        tokens = ["person"]
    noun = tokens[-1].lower() if tokens else ""
    kind = CLASSES.get(noun, "other")
    years = _years(sentence, kind, year[1] if year else "")
    if not 1 <= len(tokens) <= _WORDS or not noun.isalpha():
        return Definition(kind="other", years=years, end=end)
    return Definition(noun, " ".join(tokens), kind, years, end)


def _years(sentence: str, kind: str, leading: str) -> tuple[tuple[str, str], ...]:
    if kind == "work":
        appeared = _APPEARED.search(sentence)
        value = leading or (appeared[1] if appeared else "")
        return (("year", value),) if value else ()
    if kind == "person":
        life, born = _LIFE.search(sentence), _BORN.search(sentence)
        if life:
            return (("birth_year", life[1]), ("death_year", life[2]))
        return (("birth_year", born[1]),) if born else ()
    if kind == "organisation" and (founded := _FOUNDED.search(sentence)):
        return (("founding_year", founded[1]),)
    return ()


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
    """What a passage states about the subject of its page.

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
