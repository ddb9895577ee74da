"""Statistics of the released training games, which generated houses follow.

They are counts and fitted weights, in ``assets/houses/alfworld.json``; ``tests/evidence/alfworld/fit_houses.py`` makes the
file from an archive of the release. Types are written without the suffix "type".
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

__all__ = ["FORMAT", "HouseStatistics", "ObjectStatistics", "RoomStatistics", "house_statistics", "parse_statistics"]

FORMAT: Final = 2


@dataclass(frozen=True, slots=True)
class ObjectStatistics:
    """One type of object in one kind of room.

    Attributes:
        counts: number of games with 0, 1, 2, … of them, among games whose goal does not name the type.
        places: weight of each type of furniture, "" for the floor. An object lies at one of the types that the room has
            with a probability proportional to the weight, and in one of its pieces with equal probability.
    """

    counts: tuple[int, ...]
    places: dict[str, int]


@dataclass(frozen=True, slots=True)
class RoomStatistics:
    """One kind of room.

    Attributes:
        furniture: type -> number of games with 0, 1, 2, … pieces, among games whose goal does not name the type.
        objects: type -> statistics.
        stands: type -> how often a piece shares the location of an earlier piece of a type, "" if of none.
    """

    furniture: dict[str, tuple[int, ...]]
    objects: dict[str, ObjectStatistics]
    stands: dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class HouseStatistics:
    """What generated houses follow. Odds are pairs (how often, of how many).

    Attributes:
        goals: task type -> kind of room -> (target, place) -> number of games.
        targets: task type -> number of games with 0, 1, 2, … objects of the target's type.
        rooms: kind of room -> its statistics.
        openable: type of furniture -> odds that a piece can be opened; types that never can are left out.
        hidden: task type -> factor of the weights of openable furniture for objects of the target's type, in percent.
        affordances: type of object -> its affordances, sorted.
        accepts: type of furniture -> types of objects that may be put there, sorted.
        in_two: type of furniture -> another type -> odds that an object at a piece of the first lies in one of the other.
        nested: type of object -> odds that it lies inside an object that can hold things, where one lies beside it.
    """

    goals: dict[str, dict[str, dict[tuple[str, str], int]]]
    targets: dict[str, tuple[int, ...]]
    rooms: dict[str, RoomStatistics]
    openable: dict[str, tuple[int, int]]
    hidden: dict[str, int]
    affordances: dict[str, tuple[str, ...]]
    accepts: dict[str, tuple[str, ...]]
    in_two: dict[str, dict[str, tuple[int, int]]]
    nested: dict[str, tuple[int, int]]


@cache
def house_statistics() -> HouseStatistics:
    """Return the embedded statistics."""
    return parse_statistics(json.loads((files("creditflow.assets") / "houses" / "alfworld.json").read_text("ascii")))


def parse_statistics(data: dict[str, Any]) -> HouseStatistics:
    """Return the statistics in the layout of the embedded file."""
    if data["format"] != FORMAT:
        raise AssertionError(f"statistics of houses have format {data['format']}, expected {FORMAT}")
    return HouseStatistics(
        goals={
            task: {
                room: {(target, receptacle): n for target, places in goals.items() for receptacle, n in places.items()}
                for room, goals in rooms.items()
            }
            for task, rooms in data["goals"].items()
        },
        targets=_tuples(data["targets"]),
        rooms={name: _room(room) for name, room in data["rooms"].items()},
        openable=_tuples(data["openable"]),
        hidden=data["hidden"],
        affordances=_tuples(data["affordances"]),
        accepts=_tuples(data["accepts"]),
        in_two={first: _tuples(seconds) for first, seconds in data["in_two"].items()},
        nested=_tuples(data["nested"]),
    )


def _room(data: dict[str, Any]) -> RoomStatistics:
    objects = {name: ObjectStatistics(tuple(row["counts"]), row["places"]) for name, row in data["objects"].items()}
    return RoomStatistics(_tuples(data["furniture"]), objects, data["stands"])


def _tuples(data: dict[str, list[Any]]) -> dict[str, tuple[Any, ...]]:
    return {name: tuple(values) for name, values in data.items()}
