"""What the first sentence of a page says its subject is: a description, its class, and years.

Only the words between the copula and the first relative clause or preposition are read: "X is a 1968 Hungarian drama
film directed by …" gives the description "Hungarian drama film", the class "work" and the year 1968.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

__all__ = ["BORN_AT", "CLASSES", "Definition", "definition_of", "sentences_of"]

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
    """What a page's first sentence says about its subject.

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
