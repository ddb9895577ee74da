"""Reasons why a command is rejected; the engine itself only replies "Nothing happens."."""

from __future__ import annotations

import re
from typing import Final

from creditflow.envs.alfworld.world import World

__all__ = ["rejection_reason"]

_FORMS: Final = (
    ("go", re.compile(r"go to (.+)")),
    ("open", re.compile(r"open (.+)")),
    ("close", re.compile(r"close (.+)")),
    ("examine", re.compile(r"examine (.+)")),
    ("use", re.compile(r"use (.+)")),
    ("take", re.compile(r"take (.+) from (.+)")),
    ("put", re.compile(r"move (.+) to (.+)")),
    ("put", re.compile(r"put (.+) in/on (.+)")),
    ("clean", re.compile(r"clean (.+) with (.+)")),
    ("heat", re.compile(r"heat (.+) with (.+)")),
    ("cool", re.compile(r"cool (.+) with (.+)")),
    ("slice", re.compile(r"slice (.+) with (.+)")),
)
_MAX_CHARACTERS: Final = 120  # longer commands are not matched


def rejection_reason(world: World, command: str) -> str:
    """Return the reason why an inadmissible command is rejected, in one clause."""
    if len(command) > _MAX_CHARACTERS:
        return f"no command is longer than {_MAX_CHARACTERS} characters"
    for verb, form in _FORMS:
        match = form.fullmatch(command)
        if match:
            return _reason(world, verb, command, match.groups())
    quoted = command.encode("ascii", "backslashreplace").decode()[:60]
    return f"not a command of this game: {quoted!r}; try 'help' or one of the admissible actions"


def _reason(world: World, verb: str, command: str, names: tuple[str, ...]) -> str:
    game = world.game
    if verb == "put" and command.startswith("move") != game.dialect.put.startswith("move"):
        return f"this game puts things down with '{game.dialect.put.format(o='OBJECT', r='RECEPTACLE')}'"
    receptacle = names[-1] if verb not in ("use", "slice") else ""
    thing = names[0] if verb not in ("go", "open", "close", "examine") else ""
    if verb == "examine" and receptacle in game.object_names:
        return "only the object in your hand can be examined"
    if receptacle and receptacle not in game.receptacle_names:
        return "there is no receptacle of this name"
    if thing and thing not in game.object_names:
        return "there is no object of this name"
    if receptacle:
        r = game.receptacle_names.index(receptacle)
        if game.home[r] < 0:
            return "this receptacle cannot be reached"
        if verb == "go":
            return "you are already there"
        if game.home[r] != world.location:
            return f"you are not at {receptacle}"
        if verb in ("open", "close"):
            return _door(world, verb, r)
        if verb in ("take", "put") and game.openable >> r & 1 and not world.opened >> r & 1:
            return f"{receptacle} is closed"
    o = game.object_names.index(thing)
    if verb == "take":
        return _taking(world, o, game.receptacle_names.index(receptacle))
    if verb == "use":
        return "it cannot be switched on" if not game.toggleable >> o & 1 else "it is not here"
    if verb == "slice":
        return _slicing(world, o, names[1])
    if world.held != o:
        return "you do not hold it"
    return {
        "put": "this receptacle is not made for such things",
        "clean": "it cannot be cleaned there",
        "heat": "it cannot be heated there",
        "cool": "it cannot be cooled there",
    }[verb]


def _door(world: World, verb: str, r: int) -> str:
    if not world.game.openable >> r & 1:
        return "it cannot be opened or closed"
    return "it is open already" if verb == "open" else "it is closed already"


def _taking(world: World, o: int, r: int) -> str:
    if world.held >= 0:
        return f"your hand is full: you hold {world.game.object_names[world.held]}"
    if not world.game.pickupable >> o & 1:
        return "it cannot be picked up"
    return f"it is not in {world.game.receptacle_names[r]}"


def _slicing(world: World, o: int, knife: str) -> str:
    game = world.game
    if world.held < 0 or game.object_names[world.held] != knife:
        return "you do not hold the knife"
    if not game.knives >> world.held & 1:
        return "only a knife or a butterknife can slice"
    return "it cannot be sliced" if not game.sliceable >> o & 1 else "it is not here"
