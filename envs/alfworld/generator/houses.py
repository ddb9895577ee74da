"""Generated houses: seeded, solvable, not trivial, of known optimal length.

Only raw 64-bit draws are used, whose streams NumPy keeps stable, so a seed is the same house on every machine. Splits
are disjoint by *content*: whether a house belongs to "valid_unseen" depends on its furniture alone (one layout in
eight is held out), and among the others "valid_seen" takes one arrangement of things in eight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final

import numpy as np

from creditflow.envs.alfworld.game import Game
from creditflow.envs.alfworld.game_files.content import FORMAT, validate_content
from creditflow.envs.alfworld.generator.furnishing import ACCEPTS, FAMILIES, OPENABLE, ROOMS, THINGS
from creditflow.envs.alfworld.oracle import ALFWorldOracle
from creditflow.envs.alfworld.pddl.goals import PROPERTIES, TASK_TYPES
from creditflow.envs.alfworld.world import World
from creditflow.envs.errors import ConfigError, check_name, short_repr

__all__ = ["GENERATION", "MIN_STEPS", "ROOMS_FOR", "SPLITS", "generate"]

GENERATION: Final = 1  # increased when the same seed gives another house
MAX_SEED: Final = 2**64
SPLITS: Final = ("train", "valid_seen", "valid_unseen")
HELD_OUT: Final = 8  # one layout, and one arrangement, in this many is held out
# minimum length of a shortest plan in commands: a shorter one means that the object lay at its goal by chance
MIN_STEPS: Final[dict[str, int]] = {
    "pick_and_place_simple": 4,
    "look_at_obj_in_light": 3,
    "pick_clean_then_place_in_recep": 5,
    "pick_heat_then_place_in_recep": 5,
    "pick_cool_then_place_in_recep": 5,
    "pick_two_obj_and_place": 7,
}
ROOMS_FOR: Final[dict[str, tuple[str, ...]]] = {
    "pick_and_place_simple": ("kitchen", "bathroom", "bedroom", "living"),
    "look_at_obj_in_light": ("bedroom", "living"),
    "pick_clean_then_place_in_recep": ("kitchen", "bathroom"),
    "pick_heat_then_place_in_recep": ("kitchen",),
    "pick_cool_then_place_in_recep": ("kitchen",),
    "pick_two_obj_and_place": ("kitchen", "bathroom", "bedroom", "living"),
}
_SENTENCES: Final[dict[str, tuple[str, ...]]] = {
    "pick_and_place_simple": ("put one {o} in the {r}", "bring any {o} to the {r}"),
    "look_at_obj_in_light": ("look at one {o} by the light of the {r}", "hold any {o} under the {r}"),
    "pick_clean_then_place_in_recep": ("put one clean {o} in the {r}", "wash any {o}, then leave it in the {r}"),
    "pick_heat_then_place_in_recep": ("put one hot {o} in the {r}", "warm up any {o}, then leave it in the {r}"),
    "pick_cool_then_place_in_recep": ("put one cold {o} in the {r}", "chill any {o}, then leave it in the {r}"),
    "pick_two_obj_and_place": ("put two {o} in one {r}", "bring a pair of {o} to the same {r}"),
}
_SHARED_LOCATION: Final = 8  # of 100 receptacles share the location of the previous one
_IN_TWO: Final = 25  # of 100 objects at such a location lie in both
_WITHIN: Final = 10  # of 100 small objects lie inside a dish beside them
_CHILLED: Final = 10  # of 100 objects in a fridge start cold
_SMALL: Final = frozenset({"cutlery", "pocket"})


class _Random:
    """A stream of random choices over raw 64-bit draws."""

    def __init__(self, seed: Sequence[int]) -> None:
        self._raw: Callable[[], int] = np.random.PCG64(list(seed)).random_raw

    def below(self, n: int) -> int:
        """An integer in [0, n)."""
        return (int(self._raw()) * n) >> 64

    def between(self, low: int, high: int) -> int:
        """An integer in [low, high]."""
        return low + self.below(high - low + 1)

    def happens(self, percent: int) -> bool:
        """True with a probability of ``percent`` in 100."""
        return self.below(100) < percent

    def pick(self, options: Sequence[Any]) -> Any:
        """An option, uniformly."""
        return options[self.below(len(options))]


@dataclass(slots=True)
class _House:
    """A house under construction.

    Attributes:
        receptacles: rows as in the content, in any order.
        objects: rows as in the content, in any order.
        families: family per object id.
    """

    receptacles: list[list[Any]] = field(default_factory=list)
    objects: list[list[Any]] = field(default_factory=list)
    families: dict[str, str] = field(default_factory=dict)


def generate(seed: int, split: str = "train", task_type: str = "", room: str = "") -> dict[str, Any]:
    """Generate the content of a game.

    Args:
        seed: an integer in [0, 2**64).
        split: one of ``SPLITS``.
        task_type: one of ``TASK_TYPES``; "" samples one.
        room: one of ``ROOMS`` that suits the task; "" samples one.

    Raises:
        ConfigError: an unknown name, or a room in which the task cannot be done.
    """
    if type(seed) is not int or not 0 <= seed < MAX_SEED:
        raise ConfigError(f"seed must be an integer from 0 up to 2**64 - 1, got {short_repr(seed)}")
    check_name("split", split, SPLITS)
    check_name("task type", task_type, ("", *TASK_TYPES))
    check_name("room", room, ("", *ROOMS_FOR.get(task_type, ROOMS)))
    random = _Random((GENERATION, seed))
    options = [name for name in TASK_TYPES if not room or room in ROOMS_FOR[name]]
    task = task_type or random.pick(options)
    kind = room or random.pick(ROOMS_FOR[task])
    while True:
        house = _furnish(random, kind)
        if (_hash_class(_layout(house, kind)) == 0) != (split == "valid_unseen"):
            continue
        _fill(random, house, kind)
        if split != "valid_unseen" and (_hash_class(_arrangement(house)) == 0) != (split == "valid_seen"):
            continue
        content = _pose(random, house, task)
        if content is not None:
            return content


# -- furniture -------------------------------------------------------------------------------------------------------
def _furnish(random: _Random, kind: str) -> _House:
    house = _House()
    location = 0  # the agent starts at location 0, which has no furniture
    for piece in ROOMS[kind].furniture:
        if not random.happens(piece.percent):
            continue
        for number in range(1, random.between(piece.low, piece.high) + 1):
            if location == 0 or not random.happens(_SHARED_LOCATION):
                location += 1
            openness = "openable" if random.happens(OPENABLE.get(piece.type, 0)) else ""
            house.receptacles.append(
                [_place_id(piece.type, number), f"{piece.type}type", _location(location), openness]
            )
    return house


def _place_id(kind: str, number: int) -> str:
    """Return a receptacle's id; basins are named after the sink or bathtub: ``sink_bar_01_bar_sinkbasin``."""
    if kind.endswith("basin"):
        return f"{kind.removesuffix('basin')}_bar_{number:02d}_bar_{kind}"
    return f"{kind}_bar_{number:02d}"


def _location(number: int) -> str:
    return f"loc_bar_{number:02d}"


def _layout(house: _House, kind: str) -> str:
    """Return a text that identifies a layout: the furniture at each location, regardless of order."""
    stands: dict[str, list[str]] = {}
    for _, rtype, home, openness in house.receptacles:
        stands.setdefault(home, []).append(f"{rtype}{openness[:1]}")
    return f"{kind}:{sorted(sorted(stand) for stand in stands.values())}"


def _arrangement(house: _House) -> str:
    return repr(sorted((row[1], row[3]) for row in house.objects))


def _hash_class(text: str) -> int:
    """Return a class below ``HELD_OUT``, from a stable hash."""
    return int.from_bytes(blake2b(f"{GENERATION}/{text}".encode(), digest_size=4).digest(), "big") % HELD_OUT


# -- objects ---------------------------------------------------------------------------------------------------------
def _fill(random: _Random, house: _House, kind: str) -> None:
    counts: dict[str, int] = {}
    for family, low, high in ROOMS[kind].things:
        options = tuple(FAMILIES[family])
        spots = [row for row in house.receptacles if family in ACCEPTS[row[1].removesuffix("type")]]
        for _ in range(random.between(low, high)):
            if spots:
                _drop(random, house, counts, random.pick(options), family, random.pick(spots))
    homes = sorted({row[2] for row in house.receptacles})
    for fixture in ROOMS[kind].fixtures:
        counts[fixture] = counts.get(fixture, 0) + 1
        row = [f"{fixture}_bar_{counts[fixture]:02d}", f"{fixture}type", [random.pick(homes)], [], [], []]
        house.objects.append(row)
    _nest(random, house)


def _drop(random: _Random, house: _House, counts: dict[str, int], thing: str, family: str, spot: list[Any]) -> None:
    counts[thing] = counts.get(thing, 0) + 1
    name = f"{thing}_bar_{counts[thing]:02d}"
    inside = [spot[0]]
    beside = [
        row[0]
        for row in house.receptacles
        if row[2] == spot[2] and row[0] != spot[0] and family in ACCEPTS[row[1].removesuffix("type")]
    ]
    if beside and random.happens(_IN_TWO):
        inside.append(random.pick(beside))
    properties = list(THINGS[thing])
    if spot[1] == "fridgetype" and "coolable" in properties and random.happens(_CHILLED):
        properties.append("iscool")
    house.objects.append([name, f"{thing}type", [spot[2]], sorted(inside), [], sorted(properties)])
    house.families[name] = family


def _nest(random: _Random, house: _House) -> None:
    """Put some small objects inside a dish in the same receptacle."""
    for row in house.objects:
        if house.families.get(row[0]) in _SMALL and random.happens(_WITHIN):
            dishes = [other[0] for other in house.objects if "isreceptacleobject" in other[5] and other[3] == row[3]]
            if dishes:
                row[4] = [random.pick(dishes)]


# -- tasks -----------------------------------------------------------------------------------------------------------
def _pose(random: _Random, house: _House, task: str) -> dict[str, Any] | None:
    """Return the content with a sampled task, or None if no suitable task of this type exists."""
    choices = _looks(house) if task == "look_at_obj_in_light" else _placings(house, task)
    if not choices:
        return None
    target, place = random.pick(choices)
    words = {"o": target.removesuffix("type"), "r": place.removesuffix("type")}
    content = _content(house, [task, target, place], random.pick(_SENTENCES[task]).format(**words))
    distance = ALFWorldOracle().world_distance(World(Game(content))).distance
    return content if MIN_STEPS[task] <= distance < 50 else None


def _looks(house: _House) -> list[tuple[str, str]]:
    lamps = sorted({row[1] for row in house.objects if "toggleable" in row[5] and row[3]})
    targets = sorted({row[1] for row in house.objects if "pickupable" in row[5]})
    return [(target, lamp) for lamp in lamps for target in targets]


def _placings(house: _House, task: str) -> list[tuple[str, str]]:
    """Return the (object type, receptacle type) pairs with enough objects, none of them in place already."""
    affordance = PROPERTIES[TASK_TYPES[task]][1] if TASK_TYPES[task] else "pickupable"
    need = 2 if task == "pick_two_obj_and_place" else 1
    spots: dict[str, list[list[str]]] = {}
    for row in house.objects:
        if affordance in row[5] and "pickupable" in row[5]:
            spots.setdefault(row[1], []).append(row[3])
    kinds = {row[0]: row[1] for row in house.receptacles}
    return [
        (target, place)
        for target in sorted(spots)
        for place in sorted(set(kinds.values()))
        if len(spots[target]) >= need
        and _family(target) in ACCEPTS[place.removesuffix("type")]
        and not any(kinds[r] == place for inside in spots[target] for r in inside)
    ]


_FAMILY_OF: Final = {thing: family for family, things in FAMILIES.items() for thing in things}


def _family(otype: str) -> str:
    return _FAMILY_OF[otype.removesuffix("type")]


def _content(house: _House, goal: list[str], sentence: str) -> dict[str, Any]:
    otypes = sorted({row[1] for row in house.objects if row[0] in house.families})
    rtypes = sorted({row[1] for row in house.receptacles})
    accepted = {
        rtype: [otype for otype in otypes if _family(otype) in ACCEPTS[rtype.removesuffix("type")]] for rtype in rtypes
    }
    return validate_content(
        {
            "format": FORMAT,
            "dialect": "move",
            "sentence": sentence,
            "goal": goal,
            "agent": ["agent1", _location(0), ""],
            "receptacles": sorted(house.receptacles),
            "objects": sorted(house.objects),
            "contain": {rtype: things for rtype, things in accepted.items() if things},
        },
        "generated game",
    )
