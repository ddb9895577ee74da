"""A compiled game: the constant part of a house, as integers and bit masks.

Receptacles, objects and locations are numbered in the order of their sorted raw ids, which is the engine's listing
order; sets of objects are bit masks over those numbers. All environments with the same game share one ``Game``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from creditflow.envs.alfworld.actions import ParsedCommand
from creditflow.envs.alfworld.dialect import DIALECTS, Dialect, dialect_from_content
from creditflow.envs.alfworld.game_files.content import game_task, goal_of
from creditflow.envs.tasks import Task, content_id

__all__ = ["Game", "bits", "human_names"]

_MARKS = (("_bar_", "|"), ("_minus_", "-"), ("_plus_", "+"), ("_dot_", "."), ("_comma_", ","))


def human_names(ids: Iterable[str]) -> dict[str, str]:
    """Return raw id -> name, for all ids of one game at once (names depend on one another).

    >>> human_names(["cup_bar_01", "cup_bar_02", "sink_bar_7_bar_sinkbasin"])
    {'cup_bar_01': 'cup 2', 'cup_bar_02': 'cup 1', 'sink_bar_7_bar_sinkbasin': 'sinkbasin 1'}
    """
    ordered = sorted(set(ids))
    remaining = Counter(_base(name) for name in ordered if "_bar_" in name)
    names: dict[str, str] = {}
    for name in ordered:
        if "_bar_" in name:
            base = _base(name)
            names[name] = f"{base} {remaining[base]}"
            remaining[base] -= 1
        else:  # the engine keeps the blank before the absent number
            names[name] = f"{_unmark(name)} "
    return names


def _base(name: str) -> str:
    return _unmark(name).split("|", 1)[0] + ("basin" if "basin" in name else "")


def _unmark(name: str) -> str:
    for mark, sign in _MARKS:
        name = name.replace(mark, sign)
    return name


COMMANDS_CACHED = 128  # command lists cached per game
TEXTS_CACHED = 1024  # enumerations cached per game


def bits(mask: int) -> list[int]:
    """Return the positions of the set bits, ascending.

    >>> bits(0b1011)
    [0, 1, 3]
    """
    indices = []
    while mask:
        low = mask & -mask
        indices.append(low.bit_length() - 1)
        mask ^= low
    return indices


class Game:
    """A compiled game.

    Args:
        content: as ``validate_content`` returns it.
        syntax: dialect that replaces the game's own ("move" or "put"); None keeps its own.

    Attributes:
        digest: 16 hex digits that identify the game; part of every state key.
        receptacle_names, object_names: str per number.
        home: location number per receptacle, −1 if it has none (such receptacles exist and cannot be reached).
        at_location: tuple of receptacle numbers per location.
        fits: object mask per receptacle: the objects that may be put there.
        inner: object mask per object: the fixed contents of a container object.
        openable, sinks, microwaves, fridges: receptacle masks.
        targets, lamps, knives, pickupable, …: object masks.
        goal_places: receptacle numbers of the goal's type.
        start_location, start_held, …: the initial values of a ``World``.
    """

    def __init__(self, content: Mapping[str, Any], syntax: str | None = None) -> None:
        self.content = content
        self.goal = goal_of(content)
        self.sentence: str = content["sentence"]
        self.syntax = syntax
        self.dialect: Dialect = DIALECTS[syntax] if syntax else dialect_from_content(content["dialect"], "game")
        self.digest = content_id("", content)[1:17]
        receptacles, objects = content["receptacles"], content["objects"]
        agent, start, held = content["agent"]
        self.receptacle_ids = tuple(row[0] for row in receptacles)
        self.object_ids = tuple(row[0] for row in objects)
        places = sorted({start, *(row[2] for row in receptacles if row[2]), *(p for row in objects for p in row[2])})
        self.location_ids = tuple(places)
        names = human_names([agent, *places, *self.receptacle_ids, *self.object_ids])
        self.receptacle_names = tuple(names[r] for r in self.receptacle_ids)
        self.object_names = tuple(names[o] for o in self.object_ids)
        self.location_names = tuple(names[p] for p in places)
        number = {p: i for i, p in enumerate(places)}
        self.home = tuple(number[row[2]] if row[2] else -1 for row in receptacles)
        at_location: list[list[int]] = [[] for _ in places]
        masks = [0] * len(places)
        for r, home in enumerate(self.home):
            if home >= 0:
                at_location[home].append(r)
                masks[home] |= 1 << r
        self.at_location, self.location_masks = tuple(map(tuple, at_location)), tuple(masks)
        self.receptacle_types = tuple(row[1] for row in receptacles)
        self.object_types = tuple(row[1] for row in objects)
        self.fits = tuple(
            self._of_types(set(content["contain"].get(rtype, ())) if rtype else set())
            for rtype in self.receptacle_types
        )
        at = {o: i for i, o in enumerate(self.object_ids)}
        inner = [0] * len(objects)
        for i, row in enumerate(objects):
            for container in row[4]:
                if at[container] != i:  # some pans contain themselves; the engine never lists an object inside itself
                    inner[at[container]] |= 1 << i
        self.inner = tuple(inner)
        self._affordances(objects)
        self.openable = sum(1 << r for r, row in enumerate(receptacles) if row[3])
        self.sinks = self._places("sinkbasintype", "sinktype")
        self.microwaves = self._places("microwavetype")
        self.fridges = self._places("fridgetype")
        self.knives = self._of_types({"knifetype", "butterknifetype"})
        self._goal()
        self._start(content, number, at, start, held)
        # caches of the rules, which bound them; safe to share: entries are immutable and equal for equal keys
        self._walks: dict[int, dict[str, ParsedCommand]] = {}
        self.listed_commands: dict[Any, Any] = {}
        self.enumerations: dict[int, str] = {}
        self.distances: dict[Any, Any] = {}
        self.optimal: dict[Any, Any] = {}

    def _of_types(self, types: set[str]) -> int:
        return sum(1 << o for o, otype in enumerate(self.object_types) if otype and otype in types)

    def _places(self, *types: str) -> int:
        return sum(1 << r for r, rtype in enumerate(self.receptacle_types) if rtype in types)

    def _affordances(self, objects: list[list[Any]]) -> None:
        def having(name: str) -> int:
            return sum(1 << i for i, row in enumerate(objects) if name in row[5])

        self.pickupable = having("pickupable")
        self.cleanable, self.heatable, self.coolable = having("cleanable"), having("heatable"), having("coolable")
        self.toggleable, self.sliceable = having("toggleable"), having("sliceable")
        self.containers = having("isreceptacleobject")
        self.first_states = tuple(having(name) for name in ("isclean", "ishot", "iscool", "istoggled", "issliced"))

    def _goal(self) -> None:
        goal = self.goal
        self.targets = self._of_types({goal.target})
        self.lamps = self._of_types({goal.place}) & self.toggleable if goal.looks else 0
        self.goal_places = () if goal.looks else tuple(bits(self._places(goal.place)))
        need = {"clean": self.cleanable, "hot": self.heatable, "cool": self.coolable}
        self.candidates = self.targets & need.get(goal.quality, -1)

    def _start(
        self, content: Mapping[str, Any], places: Mapping[str, int], at: Mapping[str, int], start: str, held: str
    ) -> None:
        inside = [0] * len(self.receptacle_ids)
        around = [0] * len(self.location_ids)
        number = {r: i for i, r in enumerate(self.receptacle_ids)}
        for i, row in enumerate(content["objects"]):
            for r in row[3]:
                inside[number[r]] |= 1 << i
            for p in row[2]:
                around[places[p]] |= 1 << i
        self.start_location = places[start]
        self.start_held = at[held] if held else -1
        self.start_opened = sum(1 << r for r, row in enumerate(content["receptacles"]) if row[3] == "opened")
        self.start_inside = tuple(inside)
        self.start_around = tuple(around)

    def walks(self, location: int) -> dict[str, ParsedCommand]:
        """The commands that are admissible at a location in every state: walks elsewhere, inventory, look, help."""
        commands = self._walks.get(location)
        if commands is None:
            reachable = set(self.at_location[location])
            commands = self._walks[location] = {
                command: parsed for command, parsed in self._anywhere.items() if parsed.receptacle not in reachable
            }
        return commands

    @cached_property
    def _anywhere(self) -> dict[str, ParsedCommand]:
        """The commands that are always admissible (go to every receptacle, inventory, look, help), sorted."""
        commands = {
            f"go to {name}": ParsedCommand("go", -1, r)
            for r, name in enumerate(self.receptacle_names)
            if self.home[r] != -1
        }
        commands |= {
            verb: ParsedCommand(verb) for verb in ("help", "inventory", "look") if verb != "help" or self.dialect.help
        }
        return {command: commands[command] for command in sorted(commands)}

    def same_as(self, other: Game) -> bool:
        """Return whether content and dialect are equal (identity is no test, as caches drop and rebuild games)."""
        return self is other or (self.syntax == other.syntax and self.content == other.content)

    @cached_property
    def content_text(self) -> str:
        """The content as JSON text, as in snapshots."""
        return json.dumps(self.content, separators=(",", ":"))

    @cached_property
    def task(self) -> Task:
        """The game as a task."""
        return game_task(self.content)

    @property
    def task_line(self) -> str:
        """The sentence that states the task."""
        return f"Your task is to: {self.sentence}."
