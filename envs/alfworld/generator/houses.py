"""Generated houses like those of the release: seeded, solvable, not trivial, of known optimal length.

Goals, furniture, objects and their places follow the statistics of the released training games (``statistics.py``), but
no house is one of theirs. Splits are disjoint by *content*: whether a house belongs to "valid_unseen" depends on its
furniture alone (one layout in eight is held out), and among the others "valid_seen" takes one arrangement of objects in
eight.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

from creditflow.envs.alfworld.game import Game
from creditflow.envs.alfworld.game_files.content import FORMAT, validate_content
from creditflow.envs.alfworld.generator.draws import Draws
from creditflow.envs.alfworld.generator.furnishing import House, fill, furnish, location
from creditflow.envs.alfworld.generator.sentences import WORDINGS
from creditflow.envs.alfworld.generator.statistics import HouseStatistics, house_statistics
from creditflow.envs.alfworld.oracle import ALFWorldOracle
from creditflow.envs.alfworld.pddl.goals import TASK_TYPES
from creditflow.envs.alfworld.world import World
from creditflow.envs.errors import ConfigError, check_name, short_repr

__all__ = ["GENERATION", "MIN_STEPS", "SPLITS", "barred", "generate", "rooms_for"]

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
    seed: int,
    split: str = "train",
    task_type: str = "",
    room: str = "",
    wording: str = "released",
    *,
    statistics: HouseStatistics | None = None,
) -> dict[str, Any]:
    """Generate the content of a game.

    Args:
        seed: an integer in [0, 2**64).
        split: one of ``SPLITS``.
        task_type: one of ``TASK_TYPES``; "" samples one, as often as in the release.
        room: "bathroom", "bedroom", "kitchen" or "living", one in which the task is posed; "" samples one, as often as in
            the release.
        wording: frames of the task sentence: those of the release ("released"), others ("own") or both ("mixed").
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
    check_name("wording", wording, WORDINGS)
    draws = Draws((GENERATION, seed))
    games = {
        (task, kind): sum(goals.values())
        for task, rooms in statistics.goals.items()
        for kind, goals in rooms.items()
        if task_type in ("", task) and room in ("", kind)
    }
    task, kind = draws.weighted(games)
    for _ in range(ATTEMPTS):
        content = _attempt(draws, statistics, task, kind, split, WORDINGS[wording][task])
        if content is not None:
            return content
    raise ConfigError(
        f"none of {ATTEMPTS:,} {kind} houses poses {task} in the split {split}: are its statistics right?"
    )


def _attempt(
    draws: Draws, statistics: HouseStatistics, task: str, room: str, split: str, frames: tuple[str, ...]
) -> dict[str, Any] | None:
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
    sentence = draws.pick(frames).format(o=target, r=receptacle)
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
