"""Invented names of people, towns, rivers, works, organisations and events.

A name is a number written in syllables, and a bijection maps entities to numbers, so names are unique except for the
namesakes that the world has on purpose (see ``graph``).
"""

from __future__ import annotations

from typing import Final

__all__ = ["GIVEN", "event_name", "organisation_name", "person_name", "place_name", "river_name", "work_name"]


def _words(text: str) -> tuple[str, ...]:
    """The words of a text; the phrases between bars if it has any."""
    return tuple(text.split("|") if "|" in text else text.split())


GIVEN: Final = _words(
    "Adra Belis Corvin Delmar Edwen Fiora Garrick Helka Ivo Jessamy Kaspian Lioba Morwen Nestor Ottilie Perrin Quilla "
    "Rasmin Sabela Tancred Ursel Viktas Wenna Xandor Yolen Zephrin Alaric Brisa Caspar Dorotea Emeric Fenella Gudrin "
    "Hadrik Isolt Jorun Kestrel Leofric Maristela Norbin Odalys Pavlin Rosamel Severin Thekla Ulmar Veleda Wolmar "
    "Ysolde Zorin Ambrel Bertild Clovin Druselle Evander Flavin Gisla Hemming Ilvane Jocasta"
)
_HEAD: Final = _words(
    "Bar Brin Cas Cor Dal Dren Eld Esk Fal Fen Gor Gran Hal Har Ing Jas Kal Kren Lan Lor Mar Mil Nar Nor Ost Pel Pran "
    "Quar Rad Ros Sal Skel Tal Thor Ulm Val Ver Wen Yar Zel"
)
_MIDDLE: Final = _words("a ab ade al am an ar e el em en er i il in ir o ol om on or u ul un ur")
_TAIL: Final = _words(
    "bach by dahl den dorf feld gard gren hart kov lin mark nek rik rup sen ski sted tov vik wald yn zig ler"
)
_TOWN: Final = _words("bridge burn combe cote dale fleet ford garth ham haven holt mere mouth ness stow wick")
_STREAM: Final = _words("el ish ow et une ary ith and ock ayne")
_ADJECTIVE: Final = _words(
    "Amber Ashen Bitter Bright Broken Burning Crooked Distant Drowned Empty Faithful Fallen Forgotten Gilded Hidden "
    "Hollow Iron Ivory Last Laughing Lonely Lost Narrow Northern Pale Patient Quiet Restless Salted Scarlet Second "
    "Silent Sleeping Stolen Sunken Tall Thirteenth Unfinished Velvet Wandering Weathered White Wild Winter"
)
_NOUN: Final = _words(
    "Anchor Apprentice Archive Balcony Beacon Bell Bridge Candle Cartographer Cathedral Clock Compass Corridor Court "
    "Door Echo Estuary Falcon Ferry Forest Garden Gate Glacier Harbour Heron Horizon Inheritance Island Journey Kite "
    "Ladder Lantern Letter Lighthouse Locket Loom Market Meadow Mirror Mountain Nightingale Oath Orchard Organ Pilgrim "
    "Portrait Quarry Raven River Road Sailor Season Shadow Shore Staircase Stranger Thread Tide Tower Vineyard Voyage "
    "Watchmaker Well Window"
)
ORGANISATION_TYPES: Final = _words(
    "Academy|Almanac Company|Botanical Society|Brass Works|Conservatory|Geographical Society|Glass House|Institute|Library|"
    "Lyceum|Museum|Observatory|Opera Company|Press|Rowing Club|School of Navigation|Shipyard|Survey|Theatre|Trading House"
)
EVENT_TYPES: Final = _words(
    "Air Race|Botanical Fair|Chess Congress|Choral Festival|Engineering Exhibition|Film Week|Fencing Cup|Poetry Prize|"
    "Regatta|Sculpture Biennial|Sledge Race|Song Contest"
)


_SCATTER: Final = 7919  # prime: consecutive numbers get dissimilar names


def _coined(number: int, ending: tuple[str, ...]) -> str:
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
    return f"{GIVEN[number % len(GIVEN)]} {_coined(number // len(GIVEN), _TAIL)}"


def place_name(number: int) -> str:
    """A town.

    >>> place_name(0), place_name(20_000)
    ('Barabridge', 'Baraanmouth')
    """
    return _coined(number, _TOWN)


def river_name(number: int) -> str:
    """A river, without "the"."""
    return _coined(number, _STREAM)


def work_name(number: int) -> str:
    """A title: "The Amber Anchor", or when these are used up "The Amber Anchor of Barabridge"."""
    base, rest = number % (len(_ADJECTIVE) * len(_NOUN)), number // (len(_ADJECTIVE) * len(_NOUN))
    title = f"The {_ADJECTIVE[base // len(_NOUN)]} {_NOUN[base % len(_NOUN)]}"
    return f"{title} of {place_name(rest - 1)}" if rest else title


def organisation_name(number: int) -> str:
    """Named after a coined family: "Baraby Observatory"."""
    kind, rest = number % len(ORGANISATION_TYPES), number // len(ORGANISATION_TYPES)
    return f"{_coined(rest, _TAIL)} {ORGANISATION_TYPES[kind]}"


def event_name(number: int, year: int) -> str:
    """With its year: "1871 Barabridge Regatta"."""
    kind, rest = number % len(EVENT_TYPES), number // len(EVENT_TYPES)
    return f"{year} {place_name(rest)} {EVENT_TYPES[kind]}"
