"""Generated houses like those of the release: seeded, solvable, not trivial, of known optimal length.

Goals, furniture, objects and their places follow the statistics of the released training games, counts and fitted weights
in ``assets/houses/alfworld.json``, which was made once from the 3,547 released training games.
Types are written without the suffix "type". No house is a released one. Splits are disjoint by *content*: whether a house
belongs to "valid_unseen" depends on its furniture alone (one layout in eight is held out), and among the others
"valid_seen" takes one arrangement of objects in eight.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from typing import Any, Final, TypeVar

import numpy as np

from creditflow.envs.alfworld.game import Game
from creditflow.envs.alfworld.game_files.content import FORMAT, validate_content
from creditflow.envs.alfworld.oracle import ALFWorldOracle
from creditflow.envs.alfworld.pddl import TASK_TYPES
from creditflow.envs.alfworld.world import World
from creditflow.envs.errors import ConfigError, check_name, short_repr

__all__ = [
    "FRAMES",
    "GENERATION",
    "MIN_STEPS",
    "SPLITS",
    "STATISTICS_FORMAT",
    "Draws",
    "House",
    "HouseStatistics",
    "ObjectStatistics",
    "RoomStatistics",
    "barred",
    "fill",
    "furnish",
    "generate",
    "house_statistics",
    "location",
    "parse_statistics",
    "rooms_for",
]

T = TypeVar("T")


class Draws:
    """A stream of random choices.

    Args:
        seed: non-negative integers.
    """

    def __init__(self, seed: Sequence[int]) -> None:
        self._raw: Callable[[], int] = np.random.PCG64(list(seed)).random_raw

    def below(self, n: int) -> int:
        """An integer in [0, n)."""
        return (int(self._raw()) * n) >> 64

    def happens(self, odds: Sequence[int]) -> bool:
        """True with a probability of ``odds[0] / odds[1]``."""
        return self.below(odds[1]) < odds[0]

    def pick(self, options: Sequence[T]) -> T:
        """An option, uniformly."""
        return options[self.below(len(options))]

    def weighted(self, weights: Mapping[T, int]) -> T:
        """A key, with a probability proportional to its weight."""
        remaining = self.below(sum(weights.values()))
        for option, weight in weights.items():
            remaining -= weight
            if remaining < 0:
                return option
        raise AssertionError("a draw is below the sum of the weights")

    def count(self, histogram: Sequence[int], least: int = 0) -> int:
        """A number of at least ``least``, as often as the histogram counts it; ``least`` if it counts none."""
        weights = {number: times for number, times in enumerate(histogram) if number >= least and times}
        return self.weighted(weights) if weights else least


# task type -> frames of the task sentence, which are sampled uniformly: those of the release, equally often as there
FRAMES: Final[dict[str, tuple[str, ...]]] = {
    "pick_and_place_simple": ("put a {o} in {r}", "put some {o} on {r}"),
    "look_at_obj_in_light": ("look at {o} under the {r}", "examine the {o} with the {r}"),
    "pick_clean_then_place_in_recep": ("put a clean {o} in {r}", "clean some {o} and put it in {r}"),
    "pick_heat_then_place_in_recep": ("put a hot {o} in {r}", "heat some {o} and put it in {r}"),
    "pick_cool_then_place_in_recep": ("put a cool {o} in {r}", "cool some {o} and put it in {r}"),
    "pick_two_obj_and_place": ("put two {o} in {r}", "find two {o} and put them in {r}"),
}
STATISTICS_FORMAT: Final = 2


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


def _goals_by_room(rooms: dict[str, Any]) -> dict[str, dict[tuple[str, str], int]]:
    """For each room the number of games by target and receptacle."""
    return {room: _goal_counts(goals) for room, goals in rooms.items()}


def _goal_counts(goals: dict[str, Any]) -> dict[tuple[str, str], int]:
    return {(target, receptacle): n for target, places in goals.items() for receptacle, n in places.items()}


def parse_statistics(data: dict[str, Any]) -> HouseStatistics:
    """Return the statistics in the layout of the embedded file."""
    if data["format"] != STATISTICS_FORMAT:
        raise AssertionError(f"statistics of houses have format {data['format']}, expected {STATISTICS_FORMAT}")
    return HouseStatistics(
        goals={task: _goals_by_room(rooms) for task, rooms in data["goals"].items()},
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


GENERATION: Final = 3  # increased when the same seed gives another house
MAX_SEED: Final = 2**64
SPLITS: Final = ("train", "valid_seen", "valid_unseen")
ATTEMPTS: Final = 10_000  # a house of the released statistics takes some ten, seldom a hundred
HELD_OUT: Final = 8  # one layout, and one arrangement, in this many is held out
# minimum length of a shortest plan in commands, that of the release: a shorter one means that the object lay there by chance
MIN_STEPS: Final[dict[str, int]] = {
    "pick_and_place_simple": 3,
    "look_at_obj_in_light": 3,
    "pick_clean_then_place_in_recep": 4,
    "pick_heat_then_place_in_recep": 4,
    "pick_cool_then_place_in_recep": 4,
    "pick_two_obj_and_place": 5,
}
_EMPTY_GOAL: Final = frozenset({"pick_and_place_simple", "pick_two_obj_and_place"})
# type of furniture with which the object is treated
_MEANS: Final[dict[str, str]] = {
    "pick_clean_then_place_in_recep": "sinkbasin",
    "pick_heat_then_place_in_recep": "microwave",
    "pick_cool_then_place_in_recep": "fridge",
}


def rooms_for(task_type: str) -> tuple[str, ...]:
    """Return the kinds of rooms in which a task is posed, sorted."""
    return tuple(sorted(house_statistics().goals[task_type]))


def barred(task_type: str, place: str) -> frozenset[str]:
    """Return the types of furniture where no object of the target's type lies at the start, in any released game.

    They are the goal of a task that only moves objects, and what an object is cleaned, heated or cooled with.

    >>> sorted(barred("pick_heat_then_place_in_recep", "shelf"))
    ['microwave']

    Args:
        task_type: one of ``TASK_TYPES``.
        place: type of furniture that the goal names.
    """
    if task_type in _EMPTY_GOAL:
        return frozenset({place})
    return frozenset({_MEANS[task_type]} if task_type in _MEANS else ())


def generate(
    seed: int, split: str = "train", task_type: str = "", room: str = "", *, statistics: HouseStatistics | None = None
) -> dict[str, Any]:
    """Generate the content of a game.

    Args:
        seed: an integer in [0, 2**64).
        split: one of ``SPLITS``.
        task_type: one of ``TASK_TYPES``; "" samples one, as often as in the release.
        room: "bathroom", "bedroom", "kitchen" or "living", one in which the task is posed; "" samples one, as often as in
            the release.
        statistics: what the houses follow; None: the released training games.

    Raises:
        ConfigError: an unknown name, a room in which the task is not posed, or statistics of which no house does.
    """
    if type(seed) is not int or not 0 <= seed < MAX_SEED:
        raise ConfigError(f"seed must be an integer from 0 up to 2**64 - 1, got {short_repr(seed)}")
    statistics = statistics or house_statistics()
    check_name("split", split, SPLITS)
    check_name("task type", task_type, ("", *TASK_TYPES))
    check_name("room", room, ("", *(sorted(statistics.goals[task_type]) if task_type else statistics.rooms)))
    draws = Draws((GENERATION, seed))
    games = {
        (task, kind): sum(goals.values())
        for task, rooms in statistics.goals.items()
        for kind, goals in rooms.items()
        if task_type in ("", task) and room in ("", kind)
    }
    task, kind = draws.weighted(games)
    for _ in range(ATTEMPTS):
        content = _attempt(draws, statistics, task, kind, split)
        if content is not None:
            return content
    raise ConfigError(
        f"none of {ATTEMPTS:,} {kind} houses poses {task} in the split {split}: are its statistics right?"
    )


def _attempt(draws: Draws, statistics: HouseStatistics, task: str, room: str, split: str) -> dict[str, Any] | None:
    """Sample a game; None if it belongs to another split or is trivial or unsolvable."""
    target, receptacle = draws.weighted(statistics.goals[task][room])
    looks = task == "look_at_obj_in_light"
    house = furnish(draws, statistics, room, () if looks else {receptacle, _MEANS.get(task, receptacle)})
    if (_hash_class(_layout(house, room)) == 0) != (split == "valid_unseen"):
        return None
    numbers = {target: draws.count(statistics.targets[task], 2 if task == "pick_two_obj_and_place" else 1)}
    if looks:
        numbers[receptacle] = max(1, draws.count(statistics.rooms[room].objects[receptacle].counts))
    places = {**statistics.rooms[room].objects[target].places}
    for kind in places.keys() & statistics.openable.keys():
        places[kind] = places[kind] * statistics.hidden[task] // 100
    allowed = {kind: weight for kind, weight in places.items() if kind not in barred(task, receptacle)}
    fill(draws, statistics, room, house, numbers, target, allowed)
    if split != "valid_unseen" and (_hash_class(_arrangement(house)) == 0) != (split == "valid_seen"):
        return None
    sentence = draws.pick(FRAMES[task]).format(o=target, r=receptacle)
    content = _content(house, statistics.accepts, [task, f"{target}type", f"{receptacle}type"], sentence)
    distance = ALFWorldOracle().world_distance(World(Game(content))).distance
    return content if MIN_STEPS[task] <= distance < 50 else None


def _layout(house: House, room: str) -> str:
    """Return a text that identifies a layout: the furniture at each location, regardless of order."""
    stands: dict[str, list[str]] = {}
    for _, rtype, home, openness in house.receptacles:
        stands.setdefault(home, []).append(f"{rtype}{openness[:1]}")
    return f"{room}:{sorted(sorted(stand) for stand in stands.values())}"


def _arrangement(house: House) -> str:
    return repr(sorted((row[1], row[3]) for row in house.objects))


def _hash_class(text: str) -> int:
    """Return a class below ``HELD_OUT``, from a stable hash."""
    return int.from_bytes(blake2b(f"{GENERATION}/{text}".encode(), digest_size=4).digest(), "big") % HELD_OUT


def _content(house: House, accepts: Mapping[str, tuple[str, ...]], goal: list[str], sentence: str) -> dict[str, Any]:
    things = {row[1] for row in house.objects}
    contain = {
        f"{kind}type": sorted(f"{thing}type" for thing in accepts.get(kind, ()) if f"{thing}type" in things)
        for kind in house.pieces()
    }
    return validate_content(
        {
            "format": FORMAT,
            "dialect": "move",
            "sentence": sentence,
            "goal": goal,
            "agent": ["agent1", location(0), ""],
            "receptacles": sorted(house.receptacles),
            "objects": sorted(house.objects),
            "contain": {kind: accepted for kind, accepted in sorted(contain.items()) if accepted},
        },
        "generated game",
    )
