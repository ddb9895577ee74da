"""Articles from a grammar: each fact of an entity is one sentence of its article, among distractors.

A fact is stated once in the whole encyclopedia, in the article of its subject. Distractors mention other entities by
relations that no question uses. Wording, order and distractors are random functions of (seed, article).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final, NamedTuple

from creditflow.envs.wikisearch.retrieval.base import Passage
from creditflow.envs.wikisearch.world.counter_rng import random_int, stream_key
from creditflow.envs.wikisearch.world.graph import GENRES, World
from creditflow.envs.wikisearch.world.words import WORDS, by_relation

__all__ = ["Article", "Fact", "article", "fact_objects", "passages"]

MONTHS: Final = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
FIRST_PART: Final = 7  # sentences of an article's first passage
ALIAS_ONE_IN: Final = 3  # one mention in three uses the alias, where the name has one

_WORDINGS: Final = by_relation("facts")
_DISTRACTORS: Final = WORDS["distractors"]  # kind -> (wording, kind of the object), by relations that no question uses
_LEADS: Final = WORDS["leads"]
_FILLER: Final = WORDS["fillers"]
NUMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "person": ("born", "died"),
    "place": ("charter", "population", "river"),
    "work": ("year",),
    "organisation": ("founded",),
    "event": ("year",),
}


class Fact(NamedTuple):
    """A triple: names, and the written form of the object in its sentence."""

    subject: str
    relation: str
    object: str
    written: str


class Article(NamedTuple):
    """The passages of one page, and the facts that each of them states."""

    passages: tuple[Passage, ...]
    facts: tuple[tuple[Fact, ...], ...]


def fact_objects(world: World, kind: str, i: int) -> dict[str, tuple[str, int] | str]:
    """The objects of an entity's functional relations: (kind, number) of an entity, or the text of a literal."""
    objects: dict[str, tuple[str, int] | str] = {}
    for (owner, relation), targets in world.to.items():
        if owner == kind and (kind, relation) in _WORDINGS and targets[i] >= 0:
            objects[relation] = (_OBJECT[relation], int(targets[i]))
    for name in NUMBERS[kind]:
        objects[name] = _literal(world, kind, name, i)
    return objects


_OBJECT: Final = {
    "birth_place": "place",
    "teacher": "person",
    "employer": "organisation",
    "architect": "person",
    "twin": "place",
    "creator": "person",
    "publisher": "organisation",
    "setting": "place",
    "dedicatee": "person",
    "founder": "person",
    "seat": "place",
    "winner": "person",
    "organiser": "organisation",
    "host": "place",
}


def _literal(world: World, kind: str, name: str, i: int) -> str:
    if name == "river":
        return world.river(i)
    value = int(world.number[kind, name][i])
    return f"{value:,}" if name == "population" else str(value)


class _Writer:
    """Writes one article with the article's random stream."""

    def __init__(self, world: World, kind: str, i: int) -> None:
        self.world, self.kind, self.i = world, kind, i
        self.key = stream_key(world.seed, "article") ^ ((world.offsets[kind] + i) * 0x9E3779B1)
        self.count = 0
        self.name = world.name(kind, i)
        short = {"person": self.name.rpartition(" ")[2], "work": "the " + _genre(world, i) if kind == "work" else ""}
        self.short = short.get(kind, self.name) if kind != "event" else "the event"
        self.sentences: list[tuple[str, tuple[Fact, ...]]] = []

    def below(self, n: int) -> int:
        self.count += 1
        return random_int(self.key, self.count, n)

    def mention(self, kind: str, j: int) -> str:
        """Another entity as this article writes it; a person with a namesake always with the profession."""
        name, alias = self.world.name(kind, j), self.world.alias(kind, j)
        if kind == "person" and self.world.twin(j) != j:
            return f"the {self.world.profession(j)} {name}"
        if alias and self.below(ALIAS_ONE_IN) == 0:
            return alias
        return f"the {self.world.profession(j)} {name}" if kind == "person" and self.below(3) == 0 else name

    def add_sentence(self, wording: str, text: str, facts: tuple[Fact, ...] = ()) -> None:
        sentence = wording.replace("{s}", self.short).replace("{o}", text)
        self.sentences.append((sentence[0].upper() + sentence[1:], facts))

    def add_fact(self, relation: str, target: tuple[str, int] | str) -> None:
        wordings = _WORDINGS[self.kind, relation]
        written = target if isinstance(target, str) else self.mention(*target)
        name = target if isinstance(target, str) else self.world.name(*target)
        text_value = written
        if relation == "born":
            day, month = self.world.number["person", "day"][self.i], self.world.number["person", "month"][self.i]
            text_value = f"{day} {MONTHS[month]} {written}"
        self.add_sentence(wordings[self.below(len(wordings))], text_value, (Fact(self.name, relation, name, written),))

    def add_distractors(self) -> None:
        choices = _DISTRACTORS[self.kind]
        first = self.below(len(choices))
        for k in range(4 + self.below(min(3, len(choices) - 3))):
            wording, kind = choices[(first + k) % len(choices)]
            self.add_sentence(wording, self.mention(kind, self.below(self.world.counts[kind])))
        if self.below(2):
            self.add_sentence(_FILLER[self.below(len(_FILLER))], "")

    def add_list(self, wording: str, relation: str, people: list[int], extra: list[str]) -> None:
        """One sentence that mentions several people, each a fact; ``extra`` follows each name."""
        written = [self.mention("person", j) for j in people]
        items = [f"{text}{more}" for text, more in zip(written, extra, strict=True)]
        facts = tuple(
            Fact(self.name, relation, self.world.name("person", j), text)
            for j, text in zip(people, written, strict=True)
        )
        self.add_sentence(wording, ", ".join(items[:-1]) + " and " + items[-1], facts)

    def add_lists(self) -> None:
        if self.kind == "organisation":
            heads = self.world.lists["organisation", "heads"][self.i].tolist()
            terms = self.world.lists["organisation", "terms"][self.i].tolist()
            spans = [f" ({a} to {b})" for a, b in pairwise(terms)]
            self.add_list("It was led in turn by {o}.", "head", heads, spans)
            members = self.world.lists["organisation", "members"][self.i].tolist()
            self.add_list("Its first members were {o}.", "member", members, [""] * len(members))
        elif self.kind == "event":
            guests = self.world.lists["event", "participants"][self.i].tolist()
            self.add_list("Among those who took part were {o}.", "participant", guests, [""] * len(guests))

    def lead(self) -> str:
        alias = self.world.alias(self.kind, self.i)
        wording = _LEADS[self.kind][self.below(len(_LEADS[self.kind]))]
        described = self.world.profession(self.i) if self.kind == "person" else ""
        described = _genre(self.world, self.i) if self.kind == "work" else described
        text: str = wording.replace("{n}", self.name).replace("{a}", f", also called {alias}," if alias else "")
        return text.replace("a {d}", f"{'an' if described[:1] in 'aeiou' else 'a'} {described}")


def _genre(world: World, i: int) -> str:
    return GENRES[int(world.number["work", "genre"][i])][0]


def article(world: World, number: int) -> Article:
    """The article with this number."""
    kind, i = world.entity(number)
    writer = _Writer(world, kind, i)
    lead = writer.lead()
    for relation, target in fact_objects(world, kind, i).items():
        writer.add_fact(relation, target)
    writer.add_lists()
    writer.add_distractors()
    order = sorted(range(len(writer.sentences)), key=lambda k: (writer.below(1 << 32), k))
    body = [writer.sentences[k] for k in order]
    page, title = f"{kind}-{i}", world.title(kind, i)
    paragraphs = [body[:FIRST_PART], body[FIRST_PART:]] if len(body) > FIRST_PART + 2 else [body]
    passages, facts = [], []
    for k, sentences in enumerate(paragraphs):
        text = " ".join(([lead] if k == 0 else []) + [sentence for sentence, _ in sentences])
        passages.append(Passage(f"{page}-{k}", title, text, page))
        facts.append(tuple(fact for _, stated in sentences for fact in stated))
    return Article(tuple(passages), tuple(facts))


def passages(world: World) -> Iterator[Passage]:
    """All passages, article by article, without storing them in memory."""
    for number in range(world.articles):
        yield from article(world, number).passages
