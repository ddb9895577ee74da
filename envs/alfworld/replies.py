"""Replies to commands: the engine's texts about a state, byte for byte as TextWorld writes them, its true facts, and reasons.

The engine itself only replies "Nothing happens." to a command that it rejects; the reasons are ours.
"""

from __future__ import annotations

import re
from typing import Final

from creditflow.envs.alfworld.dialect import EXAMINE_CONDITIONS
from creditflow.envs.alfworld.game import TEXTS_CACHED, Game, bits
from creditflow.envs.alfworld.world import World

__all__ = ["enumerate_names", "inspected", "intro", "inventory", "look", "rejection_reason", "seen", "true_facts"]


def enumerate_names(names: list[str], article: str) -> str:
    """Return names as the engine lists them: "nothing", "a x", "a x, and a y", with a comma before "and".

    >>> enumerate_names(["cup 2", "cup 1"], "a ")
    'a cup 2, and a cup 1'
    """
    if not names:
        return "nothing"
    if len(names) == 1:
        return article + names[0]
    return ", ".join(article + name for name in names[:-1]) + ", and " + article + names[-1]


def _listed(game: Game, mask: int) -> str:
    text = game.enumerations.get(mask)
    if text is None:
        text = enumerate_names([game.object_names[o] for o in bits(mask)], game.dialect.article)
        if len(game.enumerations) >= TEXTS_CACHED:
            game.enumerations.clear()
        game.enumerations[mask] = text
    return text


def seen(world: World, r: int) -> str:
    """The reply to examining the receptacle ``r``."""
    game, dialect, name = world.game, world.game.dialect, world.game.receptacle_names[r]
    if not game.openable >> r & 1:
        return dialect.seen_on.format(r=name, list=_listed(game, world.inside[r]))
    if world.opened >> r & 1:
        return dialect.seen_open.format(r=name, list=_listed(game, world.inside[r]))
    return dialect.seen_closed.format(r=name)


def inspected(world: World, o: int) -> str:
    """The reply to examining the held object ``o``: the first sentence whose conditions hold."""
    game = world.game
    holds = {
        "isreceptacleobject": game.containers,
        "isclean": world.clean,
        "ishot": world.hot,
        "iscool": world.cool,
        "issliced": world.sliced,
        "istoggled": world.toggled,
        "not_istoggled": 0,  # the engine never states this negative fact
        "toggleable": game.toggleable,
        "sliceable": game.sliceable,
    }
    for conditions, sentence in zip(EXAMINE_CONDITIONS, game.dialect.properties, strict=True):
        if all(holds[name] >> o & 1 for name in conditions):
            return sentence.format(o=game.object_names[o], list=_listed(game, game.inner[o]))
    raise AssertionError("the last sentence has no condition")


def inventory(world: World) -> str:
    """The reply to ``inventory``."""
    game = world.game
    if world.held < 0:
        return game.dialect.empty_handed
    return game.dialect.carrying.format(list=game.dialect.article + game.object_names[world.held])


def look(world: World) -> str:
    """The reply to ``look``."""
    game, dialect = world.game, world.game.dialect
    receptacles = game.at_location[world.location]
    if not receptacles:
        return dialect.middle.format(list="nothing")  # the engine looks for receptacles *at this place*
    facing = [game.receptacle_names[r] + _openness(world, r) for r in receptacles]
    around = world.around[world.location]
    fallen = [
        game.object_names[o] for o in bits(around) for r in receptacles if world.missing.get(r, 0) >> o & 1
    ]  # once per receptacle it was taken from
    return dialect.facing.format(list=enumerate_names(facing, "")) + dialect.beside.format(
        list=enumerate_names(fallen, dialect.article)
    )


def _openness(world: World, r: int) -> str:
    if not world.game.openable >> r & 1:
        return ""
    return world.game.dialect.state_open if world.opened >> r & 1 else world.game.dialect.state_closed


def intro(world: World) -> str:
    """The first observation: all receptacles that have a location, and the task."""
    game = world.game
    if game.at_location[world.location]:
        scene = look(world)
    else:
        names = [name for r, name in enumerate(game.receptacle_names) if game.home[r] >= 0]
        scene = game.dialect.middle.format(list=enumerate_names(names, game.dialect.article))
    return game.dialect.welcome.format(look=scene, task=game.task_line)


def true_facts(world: World) -> tuple[str, ...]:
    """Facts that can change, sorted, with the names that observations use, such as ``inreceptacle(mug 1, desk 1)``."""
    game = world.game
    objects, receptacles = game.object_names, game.receptacle_names
    facts = [f"atlocation(agent, {game.location_names[world.location]})"]
    if world.held >= 0:
        facts.append(f"holds(agent, {objects[world.held]})")
    facts += [f"opened({receptacles[r]})" for r in bits(world.opened)]
    facts += [
        f"inreceptacle({objects[o]}, {receptacles[r]})" for r, mask in enumerate(world.inside) for o in bits(mask)
    ]
    facts += [
        f"objectatlocation({objects[o]}, {game.location_names[p]})"
        for p, mask in enumerate(world.around)
        for o in bits(mask)
    ]
    for name, mask in (
        ("isclean", world.clean),
        ("ishot", world.hot),
        ("iscool", world.cool),
        ("istoggled", world.toggled),
        ("issliced", world.sliced),
    ):
        facts += [f"{name}({objects[o]})" for o in bits(mask)]
    return tuple(sorted(facts))


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
