"""Furniture and objects of one room, sampled from the statistics of released games."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from creditflow.envs.alfworld.generator.draws import Draws
from creditflow.envs.alfworld.generator.statistics import HouseStatistics

__all__ = ["House", "fill", "furnish", "location"]


@dataclass(slots=True)
class House:
    """A house under construction.

    Attributes:
        receptacles: rows as in the content, in any order.
        objects: rows as in the content, in any order.
    """

    receptacles: list[list[Any]] = field(default_factory=list)
    objects: list[list[Any]] = field(default_factory=list)

    def pieces(self) -> dict[str, list[list[Any]]]:
        """Receptacles by their type, without the suffix "type"."""
        rows: dict[str, list[list[Any]]] = {}
        for row in self.receptacles:
            rows.setdefault(row[1].removesuffix("type"), []).append(row)
        return rows


def location(number: int) -> str:
    """Return the name of a location; the agent starts at location 0, which has no furniture."""
    return f"loc_bar_{number:02d}"


def furnish(draws: Draws, statistics: HouseStatistics, room: str, needed: Collection[str]) -> House:
    """Sample the furniture of a room that has at least one piece of each needed type."""
    house, used = House(), 0
    homes: dict[str, list[str]] = {}  # type -> locations of its pieces
    for kind, histogram in statistics.rooms[room].furniture.items():
        for number in range(1, draws.count(histogram, least=int(kind in needed)) + 1):
            beside = draws.weighted(statistics.rooms[room].stands[kind])
            if beside in homes:
                home = draws.pick(homes[beside])
            else:
                used += 1
                home = location(used)
            homes.setdefault(kind, []).append(home)
            openness = "openable" if draws.happens(statistics.openable.get(kind, (0, 1))) else ""
            house.receptacles.append([_place_id(kind, number), f"{kind}type", home, openness])
    return house


def _place_id(kind: str, number: int) -> str:
    """Return a receptacle's id; basins are named after the sink or bathtub: ``sink_bar_01_bar_sinkbasin``."""
    if kind.endswith("basin"):
        return f"{kind.removesuffix('basin')}_bar_{number:02d}_bar_{kind}"
    return f"{kind}_bar_{number:02d}"


def fill(
    draws: Draws,
    statistics: HouseStatistics,
    room: str,
    house: House,
    numbers: Mapping[str, int],
    target: str,
    places: Mapping[str, int],
) -> None:
    """Sample the objects of a room. As in the release, exactly the goal's objects are cold if they lie in a fridge.

    Args:
        draws: the random choices.
        statistics: what the house follows.
        room: the kind of room.
        house: gets the objects.
        numbers: type of object -> how many there are; other types follow the statistics.
        target: type of the goal's objects.
        places: their weights of places, in the stead of those of the statistics.
    """
    pieces = house.pieces()
    for thing, counted in statistics.rooms[room].objects.items():
        weights = {
            receptacle: weight
            for receptacle, weight in (places if thing == target else counted.places).items()
            if receptacle in pieces or not receptacle
        }
        number = numbers[thing] if thing in numbers else draws.count(counted.counts)
        for index in range(1, number + 1 if any(weights.values()) else 1):
            _drop(draws, statistics, house, pieces, f"{thing}_bar_{index:02d}", draws.weighted(weights), target)
    _nest(draws, statistics, house)


def _drop(
    draws: Draws,
    statistics: HouseStatistics,
    house: House,
    pieces: Mapping[str, list[list[Any]]],
    name: str,
    place: str,
    target: str,
) -> None:
    """Put an object into a piece of furniture of this type, or on the floor."""
    thing = name.split("_bar_")[0]
    properties = list(statistics.affordances[thing])
    if not place:
        homes = sorted({row[2] for row in house.receptacles})
        house.objects.append([name, f"{thing}type", [draws.pick(homes)], [], [], properties])
        return
    spot = draws.pick(pieces[place])
    inside = [spot[0]]
    for second, odds in statistics.in_two.get(place, {}).items():
        options = [
            row
            for row in pieces.get(second, ())
            if row[0] not in inside and thing in statistics.accepts.get(second, ())
        ]
        if options and draws.happens(odds):
            inside.append(draws.pick(options)[0])
            break
    if place == "fridge" and thing == target:
        properties.append("iscool")
    house.objects.append([name, f"{thing}type", [spot[2]], sorted(inside), [], sorted(properties)])


def _nest(draws: Draws, statistics: HouseStatistics, house: House) -> None:
    """Put some objects inside an object that can hold things and lies in the same receptacle."""
    holders: dict[tuple[str, ...], list[str]] = {}
    for row in house.objects:
        if "isreceptacleobject" in row[5] and row[3]:
            holders.setdefault(tuple(row[3]), []).append(row[0])
    held: Counter[str] = Counter()
    for row in house.objects:
        odds = statistics.nested.get(row[1].removesuffix("type"))
        options = [name for name in holders.get(tuple(row[3]), ()) if name != row[0] and not held[row[0]]]
        if odds and row[3] and options and draws.happens(odds):
            row[4] = [draws.pick(options)]
            held[row[4][0]] += 1
