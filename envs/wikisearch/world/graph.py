"""The knowledge graph of the fictional world as arrays: who was born where, who wrote what, and when.

Every relation is a function of the seed and the entity's number, so a world of a million articles is a few dozen
arrays, and any article can be written on its own. Constraints: teachers are older than their pupils; works, foundations,
terms of office and prizes fall into their people's adult lives.

A name is a number written in syllables, and a bijection maps entities to numbers, so names are unique except for the
namesakes that the world has on purpose (see ``graph``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, short_repr
from creditflow.envs.wikisearch.world.counter_rng import permuted_index, random_ints, stream_key
from creditflow.envs.wikisearch.world.words import WORDS

__all__ = [
    "GENRES",
    "GIVEN",
    "KINDS",
    "PROFESSIONS",
    "RELATIONS",
    "World",
    "event_name",
    "make_world",
    "organisation_name",
    "person_name",
    "place_name",
    "river_name",
    "work_name",
]


_NAMES: Final[dict[str, list[str]]] = WORDS["names"]
GIVEN: Final = _NAMES["given"]
_HEAD, _MIDDLE = _NAMES["head"], _NAMES["middle"]  # syllables
_ADJECTIVE, _NOUN = _NAMES["adjective"], _NAMES["noun"]
ORGANISATION_TYPES: Final = _NAMES["organisation"]
EVENT_TYPES: Final = _NAMES["event"]
_SCATTER: Final = 7919  # prime: consecutive numbers get dissimilar names


def _coined(number: int, ending: Sequence[str]) -> str:
    space = len(_HEAD) * len(_MIDDLE) * len(ending)
    base, rest = number % space * _SCATTER % space, number // space  # a bijection below ``space``
    head, base = base % len(_HEAD), base // len(_HEAD)
    middle, last = base % len(_MIDDLE), base // len(_MIDDLE)
    more = ""
    while rest:  # after the two-syllable names, syllables are inserted
        rest -= 1
        more += _MIDDLE[rest % len(_MIDDLE)] + "n"
        rest //= len(_MIDDLE)
    return _HEAD[head] + _MIDDLE[middle] + more + ending[last]


def person_name(number: int) -> str:
    """Given name and surname.

    >>> person_name(61)
    'Belis Zelulgren'
    """
    family = _coined(number // len(GIVEN), _NAMES["tail"])
    return f"{GIVEN[number % len(GIVEN)]} {family}"


def place_name(number: int) -> str:
    """A town.

    >>> place_name(0), place_name(20_000)
    ('Barabridge', 'Baraanmouth')
    """
    return _coined(number, _NAMES["town"])


def river_name(number: int) -> str:
    """A river, without "the"."""
    return _coined(number, _NAMES["stream"])


def work_name(number: int) -> str:
    """A title: "The Amber Anchor", or when these are used up "The Amber Anchor of Barabridge"."""
    base, rest = number % (len(_ADJECTIVE) * len(_NOUN)), number // (len(_ADJECTIVE) * len(_NOUN))
    title = f"The {_ADJECTIVE[base // len(_NOUN)]} {_NOUN[base % len(_NOUN)]}"
    return f"{title} of {place_name(rest - 1)}" if rest else title


def organisation_name(number: int) -> str:
    """Named after a coined family: "Baraby Observatory"."""
    kind, rest = number % len(ORGANISATION_TYPES), number // len(ORGANISATION_TYPES)
    family = _coined(rest, _NAMES["tail"])
    return f"{family} {ORGANISATION_TYPES[kind]}"


def event_name(number: int, year: int) -> str:
    """With its year: "1871 Barabridge Regatta"."""
    kind, rest = number % len(EVENT_TYPES), number // len(EVENT_TYPES)
    return f"{year} {place_name(rest)} {EVENT_TYPES[kind]}"


GENERATION: Final = 1  # increases when the same seed gives another world
KINDS: Final = ("person", "place", "work", "organisation", "event")
FRACTIONS: Final = (0.44, 0.18, 0.2, 0.12)  # of the articles; events are the rest
PROFESSIONS: Final[list[str]] = WORDS["professions"]
GENRES: Final[list[tuple[str, str]]] = WORDS["genres"]  # with the word for who makes such a work
# subject kind -> its relations to entities -> object kind
RELATIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "person": {"birth_place": "place", "teacher": "person", "employer": "organisation"},
    "place": {"architect": "person", "twin": "place"},
    "work": {"creator": "person", "publisher": "organisation", "setting": "place", "dedicatee": "person"},
    "organisation": {"founder": "person", "seat": "place"},
    "event": {"winner": "person", "organiser": "organisation", "host": "place"},
}
# by kind, the minimum number of names to choose from; names of persons depend on the number of families
MIN_NAMES: Final[Mapping[str, int]] = {"place": 16_000, "work": 2_816, "organisation": 8_000, "event": 12_000}
NAMED: Final[Mapping[str, Callable[[int], str]]] = {
    "place": place_name,
    "work": work_name,
    "organisation": organisation_name,
}
TWIN_EVERY: Final = 16  # every sixteenth person has the name of the one before
HEADS: Final = 3
MEMBERS: Final = 3
PARTICIPANTS: Final = 4


@dataclass(frozen=True, eq=False)
class World:
    """The graph.

    Attributes:
        seed: random seed.
        counts: number of entities by kind.
        to: (kind, relation) to int64 (count,), the object's number in its kind; −1: none.
        number: (kind, attribute) to int64 (count,): years, inhabitants, indices into word lists.
        lists: (kind, relation) to int64 (count, n): heads, members, participants.
    """

    seed: int
    counts: Mapping[str, int]
    to: Mapping[tuple[str, str], NDArray[np.int64]]
    number: Mapping[tuple[str, str], NDArray[np.int64]]
    lists: Mapping[tuple[str, str], NDArray[np.int64]]

    @property
    def articles(self) -> int:
        """The number of articles."""
        return sum(self.counts.values())

    @cached_property
    def offsets(self) -> dict[str, int]:
        """Number of the first article of each kind."""
        starts = np.cumsum([0, *(self.counts[kind] for kind in KINDS)]).tolist()
        return dict(zip(KINDS, starts, strict=False))

    def entity(self, article: int) -> tuple[str, int]:
        """The kind and number of an article's entity."""
        for kind in reversed(KINDS):
            if article >= self.offsets[kind]:
                return kind, article - self.offsets[kind]
        raise ConfigError(f"articles are numbered from 0, got {article}")

    def name(self, kind: str, i: int) -> str:
        """The name of an entity."""
        if kind == "person":
            i = i - 1 if self.twin(i) < i else i
            families = max(40, self.counts["person"] // 4)
            space = len(GIVEN) * families
            return person_name(permuted_index(i, space, stream_key(self.seed, "person")))
        number = permuted_index(i, max(MIN_NAMES[kind], self.counts[kind]), stream_key(self.seed, kind))
        if kind == "event":
            return event_name(number, int(self.number["event", "year"][i]))
        return NAMED[kind](number)

    def twin(self, i: int) -> int:
        """The other person of the same name; ``i`` itself if there is none."""
        if i % TWIN_EVERY == TWIN_EVERY - 1:
            return i - 1
        return i + 1 if i % TWIN_EVERY == TWIN_EVERY - 2 and i + 1 < self.counts["person"] else i

    def title(self, kind: str, i: int) -> str:
        """The title of an entity's article: its name, with the profession where two people share it."""
        name = self.name(kind, i)
        return f"{name} ({self.profession(i)})" if kind == "person" and self.twin(i) != i else name

    def profession(self, i: int) -> str:
        """A person's profession; namesakes have different ones."""
        return PROFESSIONS[int(self.number["person", "profession"][i])]

    def river(self, i: int) -> str:
        """The river of a town, without "the"; every town has a different one."""
        return river_name(permuted_index(i, max(10_000, self.counts["place"]), stream_key(self.seed, "river")))

    def alias(self, kind: str, i: int) -> str:
        """Another form of the name; "" if there is none."""
        name = self.name(kind, i)
        if kind == "person" and i % 3 == 0:
            first_name, _, family = name.partition(" ")
            return f"{first_name[0]}. {family}"
        if kind == "organisation" and i % 2 == 0 and " of " not in name:
            return "the " + name.partition(" ")[0] + "eum"
        return ""


def make_world(seed: int, articles: int) -> World:
    """The world of a seed.

    Args:
        seed: any integer ≥ 0.
        articles: number of articles, from 200 to a million.

    Raises:
        ConfigError: out of range.
    """
    if type(articles) is not int or not 200 <= articles <= 1_000_000 or type(seed) is not int or seed < 0:
        raise ConfigError(
            f"a world has 200 to 1,000,000 articles and a seed ≥ 0, got {short_repr(articles)} and {short_repr(seed)}"
        )
    counts = {kind: int(fraction * articles) for kind, fraction in zip(KINDS, FRACTIONS, strict=False)}
    counts["event"] = articles - sum(counts.values())
    make = _Maker(seed, counts)
    make.add_people()
    make.add_places()
    make.add_works()
    make.add_organisations()
    make.add_events()
    return World(seed, counts, make.to, make.number, make.lists)


class _Maker:
    """Fills the arrays kind by kind; later kinds use the dates of earlier ones."""

    def __init__(self, seed: int, counts: Mapping[str, int]) -> None:
        self.seed, self.counts = seed, counts
        self.to: dict[tuple[str, str], NDArray[np.int64]] = {}
        self.number: dict[tuple[str, str], NDArray[np.int64]] = {}
        self.lists: dict[tuple[str, str], NDArray[np.int64]] = {}

    def sampled(self, kind: str, label: str, n: int) -> NDArray[np.int64]:
        """int64 (count,) below ``n``."""
        return random_ints(stream_key(self.seed, f"{kind}.{label}"), self.counts[kind], n)

    def sample_person(
        self, kind: str, label: str, least: NDArray[np.int64], most: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """For each entity a person born in [least, most]; −1 where nobody was."""
        first = np.searchsorted(self.births, least, "left")
        last = np.searchsorted(self.births, most, "right")
        pick = first + random_ints(
            stream_key(self.seed, f"{kind}.{label}"), self.counts[kind], np.maximum(last - first, 1)
        )
        return np.where(last > first, self.by_birth[np.minimum(pick, len(self.by_birth) - 1)], -1)

    def sample_or_nearest(
        self, kind: str, label: str, least: NDArray[np.int64], most: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """As ``sample_person``; where nobody was born then, the last person born before (in small worlds only)."""
        sampled = self.sample_person(kind, label, least, most)
        nearest = np.clip(np.searchsorted(self.births, most, "right") - 1, 0, None)
        return np.where(sampled < 0, self.by_birth[nearest], sampled)

    def add_people(self) -> None:
        n = self.counts["person"]
        born = 1560 + self.sampled("person", "born", 330)
        profession = self.sampled("person", "profession", len(PROFESSIONS))
        second = np.arange(n) % TWIN_EVERY == TWIN_EVERY - 1
        profession[second] = (np.roll(profession, 1)[second] + 7) % len(PROFESSIONS)
        self.number |= {
            ("person", "born"): born,
            ("person", "day"): 1 + self.sampled("person", "day", 28),
            ("person", "month"): self.sampled("person", "month", 12),
            ("person", "died"): born + 44 + self.sampled("person", "age", 46),
            ("person", "profession"): profession,
        }
        self.by_birth = np.argsort(born, kind="stable")
        self.births = born[self.by_birth]
        self.to |= {
            ("person", "birth_place"): self.sampled("person", "birth_place", self.counts["place"]),
            ("person", "teacher"): self.sample_person("person", "teacher", born - 55, born - 14),
            ("person", "employer"): self.sampled("person", "employer", self.counts["organisation"]),
        }

    def add_places(self) -> None:
        n = self.counts["place"]
        charter = 900 + self.sampled("place", "charter", 600)
        twin = self.sampled("place", "twin", n)
        twin = np.where(twin == np.arange(n), (twin + 1) % n, twin)
        self.number |= {
            ("place", "charter"): charter,
            ("place", "population"): 900 + self.sampled("place", "population", 88_000),
        }
        self.to |= {
            ("place", "architect"): self.sampled("place", "architect", self.counts["person"]),
            ("place", "twin"): twin,
        }

    def add_works(self) -> None:
        creator = self.sampled("work", "creator", self.counts["person"])
        year = self.number["person", "born"][creator] + 22 + self.sampled("work", "age", 21)
        dedicatee = self.sampled("work", "dedicatee", self.counts["person"])
        dedicatee = np.where(dedicatee == creator, (dedicatee + 1) % self.counts["person"], dedicatee)
        self.number |= {("work", "year"): year, ("work", "genre"): self.sampled("work", "genre", len(GENRES))}
        self.to |= {
            ("work", "creator"): creator,
            ("work", "publisher"): self.sampled("work", "publisher", self.counts["organisation"]),
            ("work", "setting"): self.sampled("work", "setting", self.counts["place"]),
            ("work", "dedicatee"): dedicatee,
        }

    def add_organisations(self) -> None:
        early = np.full(self.counts["organisation"], 1560)
        # founders are born early, so that heads and prize winners can be born later
        founder = self.sample_or_nearest("organisation", "founder", early, early + 230)
        founded = self.number["person", "born"][founder] + 25 + self.sampled("organisation", "age", 18)
        terms = [founded]
        for k in range(HEADS):
            terms.append(terms[-1] + 6 + self.sampled("organisation", f"term.{k}", 14))
        heads = [
            self.sample_or_nearest("organisation", f"head.{k}", terms[k] - 60, terms[k + 1] - 24) for k in range(HEADS)
        ]
        members = [
            self.sample_or_nearest("organisation", f"member.{k}", founded - 60, founded - 20) for k in range(MEMBERS)
        ]
        self.number["organisation", "founded"] = founded
        self.to |= {
            ("organisation", "founder"): founder,
            ("organisation", "seat"): self.sampled("organisation", "seat", self.counts["place"]),
        }
        self.lists |= {
            ("organisation", "heads"): np.stack(heads, axis=1),
            ("organisation", "terms"): np.stack(terms, axis=1),
            ("organisation", "members"): np.stack(members, axis=1),
        }

    def add_events(self) -> None:
        organiser = self.sampled("event", "organiser", self.counts["organisation"])
        year = self.number["organisation", "founded"][organiser] + 1 + self.sampled("event", "year", 14)
        # one guest is a founding member of some organisation of that time: intersection questions need it
        guest_of = self.sampled("event", "guest_of", self.counts["organisation"])
        member = self.sampled("event", "guest", MEMBERS)
        guests = [self.lists["organisation", "members"][guest_of, member]]
        guests += [self.sample_or_nearest("event", f"guest.{k}", year - 60, year - 18) for k in range(1, PARTICIPANTS)]
        self.number |= {("event", "year"): year}
        self.to |= {
            ("event", "winner"): self.sample_or_nearest("event", "winner", year - 55, year - 18),
            ("event", "organiser"): organiser,
            ("event", "host"): self.sampled("event", "host", self.counts["place"]),
            ("event", "guest_of"): guest_of,
        }
        self.lists["event", "participants"] = np.stack(guests, axis=1)
