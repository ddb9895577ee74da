"""The rules: which commands are admissible, what they change, what the engine answers.

Byte-exact with TextWorld's PDDL engine playing released ALFWorld games, including what looks like mistakes there:
heating works with a closed microwave, an object put down next to where it was taken shows up "next to" the place,
``use`` always "turns on", ``look`` at the start sees nothing, and containers never show that they are clean.
"""

from __future__ import annotations

from creditflow.envs.alfworld.actions import AdmissibleCommands, ParsedCommand
from creditflow.envs.alfworld.game import COMMANDS_CACHED, TEXTS_CACHED, Game, bits
from creditflow.envs.alfworld.wording.dialect import EXAMINE_CONDITIONS, NOTHING_HAPPENS
from creditflow.envs.alfworld.world import World

__all__ = ["NOTHING_HAPPENS", "act", "admissible_commands", "intro", "inventory", "look"]


# -- admissible commands ---------------------------------------------------------------------------------------------
def admissible_commands(world: World) -> AdmissibleCommands:
    """The admissible commands, remembered per game (they depend on little of the state)."""
    game, held, place = world.game, world.held, world.location
    inside = world.inside
    here = game.at_location[place]
    knife = held >= 0 and game.knives >> held & 1
    key = (
        place,
        held,
        world.opened & game.location_masks[place],
        world.around[place] & game.sliceable if knife else 0,
        *[inside[r] for r in here],
    )
    found: AdmissibleCommands | None = game.listed_commands.get(key)
    if found is None:
        found = _list_commands(world)
        if len(game.listed_commands) >= COMMANDS_CACHED:
            game.listed_commands.clear()
        game.listed_commands[key] = found
    return found


def _list_commands(world: World) -> AdmissibleCommands:
    game, held = world.game, world.held
    commands = game.walks(world.location).copy()
    for r in game.at_location[world.location]:
        _at_receptacle(world, r, commands)
    if held >= 0:
        name = game.object_names[held]
        commands[f"examine {name}"] = ParsedCommand("inspect", held)
        if game.knives >> held & 1:
            for o in bits(world.around[world.location] & game.sliceable):
                commands[f"slice {game.object_names[o]} with {name}"] = ParsedCommand("slice", o, held)
    return AdmissibleCommands(tuple(sorted(commands)), commands)


def _at_receptacle(world: World, r: int, commands: dict[str, ParsedCommand]) -> None:
    """The commands that the receptacle ``r``, where the agent stands, allows."""
    game, held, place = world.game, world.held, world.game.receptacle_names[r]
    commands[f"examine {place}"] = ParsedCommand("examine", -1, r)
    accessible = True
    if game.openable >> r & 1:
        accessible = bool(world.opened >> r & 1)
        verb = "close" if accessible else "open"
        commands[f"{verb} {place}"] = ParsedCommand(verb, -1, r)
    for o in bits(world.inside[r] & game.toggleable):
        commands[f"use {game.object_names[o]}"] = ParsedCommand("use", o, r)
    if held < 0:
        if accessible:
            for o in bits(world.inside[r] & game.pickupable):
                commands[f"take {game.object_names[o]} from {place}"] = ParsedCommand("take", o, r)
        return
    name = game.object_names[held]
    if accessible and game.fits[r] >> held & 1:
        commands[game.dialect.put.format(o=name, r=place)] = ParsedCommand("put", held, r)
    for verb, places, things in (
        ("clean", game.sinks, game.cleanable),
        ("heat", game.microwaves, game.heatable),
        ("cool", game.fridges, game.coolable),
    ):
        if places >> r & 1 and things >> held & 1:
            commands[f"{verb} {name} with {place}"] = ParsedCommand(verb, held, r)


# -- effects ---------------------------------------------------------------------------------------------------------
def act(world: World, parsed: ParsedCommand) -> tuple[str, bool]:
    """Do an admissible command.

    Returns:
        The engine's reply, and whether the state changed.
    """
    return _VERBS[parsed.verb](world, parsed)


def _go(world: World, parsed: ParsedCommand) -> tuple[str, bool]:
    game = world.game
    world.location = game.home[parsed.receptacle]
    arrived = game.dialect.arrived.format(
        r=game.receptacle_names[parsed.receptacle], l=game.location_names[world.location]
    )
    return arrived + seen(world, parsed.receptacle), True


def _open(world: World, parsed: ParsedCommand) -> tuple[str, bool]:
    world.opened |= 1 << parsed.receptacle
    name = world.game.receptacle_names[parsed.receptacle]
    return world.game.dialect.opened.format(r=name) + seen(world, parsed.receptacle), True


def _close(world: World, parsed: ParsedCommand) -> tuple[str, bool]:
    world.opened &= ~(1 << parsed.receptacle)
    return world.game.dialect.closed.format(r=world.game.receptacle_names[parsed.receptacle]), True


def _take(world: World, parsed: ParsedCommand) -> tuple[str, bool]:
    bit = 1 << parsed.obj
    world.held = parsed.obj
    world.inside[parsed.receptacle] &= ~bit
    world.around[world.location] &= ~bit
    world.missing[parsed.receptacle] = world.missing.get(parsed.receptacle, 0) | bit
    return _two(world, world.game.dialect.taken, parsed), True


def _put(world: World, parsed: ParsedCommand) -> tuple[str, bool]:
    bit = 1 << parsed.obj
    world.held = -1
    world.inside[parsed.receptacle] |= bit
    world.around[world.location] |= bit
    if parsed.receptacle in world.missing:
        world.missing[parsed.receptacle] &= ~bit
    return _two(world, world.game.dialect.moved, parsed), True


def _clean(world: World, parsed: ParsedCommand) -> tuple[str, bool]:
    before = world.clean
    world.clean |= 1 << parsed.obj
    return _two(world, world.game.dialect.cleaned, parsed), world.clean != before


def _heat(world: World, parsed: ParsedCommand) -> tuple[str, bool]:
    before = world.hot, world.cool
    world.hot |= 1 << parsed.obj
    world.cool &= ~(1 << parsed.obj)
    return _two(world, world.game.dialect.heated, parsed), (world.hot, world.cool) != before


def _cool(world: World, parsed: ParsedCommand) -> tuple[str, bool]:
    before = world.hot, world.cool
    world.cool |= 1 << parsed.obj
    world.hot &= ~(1 << parsed.obj)
    return _two(world, world.game.dialect.cooled, parsed), (world.hot, world.cool) != before


def _use(world: World, parsed: ParsedCommand) -> tuple[str, bool]:
    before = world.toggled
    world.toggled |= 1 << parsed.obj
    return world.game.dialect.toggled.format(o=world.game.object_names[parsed.obj]), world.toggled != before


def _slice(world: World, parsed: ParsedCommand) -> tuple[str, bool]:
    before = world.sliced
    world.sliced |= 1 << parsed.obj
    names = world.game.object_names
    return world.game.dialect.sliced.format(o=names[parsed.obj], k=names[parsed.receptacle]), world.sliced != before


def _examine(world: World, parsed: ParsedCommand) -> tuple[str, bool]:
    return seen(world, parsed.receptacle), False


def _inspect(world: World, parsed: ParsedCommand) -> tuple[str, bool]:
    return inspected(world, parsed.obj), False


def _inventory(world: World, _parsed: ParsedCommand) -> tuple[str, bool]:
    return inventory(world), False


def _look(world: World, _parsed: ParsedCommand) -> tuple[str, bool]:
    return look(world), False


def _help(world: World, _parsed: ParsedCommand) -> tuple[str, bool]:
    return world.game.dialect.help, False


def _two(world: World, template: str, parsed: ParsedCommand) -> str:
    return template.format(o=world.game.object_names[parsed.obj], r=world.game.receptacle_names[parsed.receptacle])


_VERBS = {
    "go": _go,
    "open": _open,
    "close": _close,
    "take": _take,
    "put": _put,
    "clean": _clean,
    "heat": _heat,
    "cool": _cool,
    "use": _use,
    "slice": _slice,
    "examine": _examine,
    "inspect": _inspect,
    "inventory": _inventory,
    "look": _look,
    "help": _help,
}


# -- replies ---------------------------------------------------------------------------------------------------------
def enumerate_names(names: list[str], article: str) -> str:
    """Names as the engine lists them: "nothing", "a x", "a x, and a y", with a comma before every "and".

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
    """What examining the receptacle ``r`` shows."""
    game, dialect, name = world.game, world.game.dialect, world.game.receptacle_names[r]
    if not game.openable >> r & 1:
        return dialect.seen_on.format(r=name, list=_listed(game, world.inside[r]))
    if world.opened >> r & 1:
        return dialect.seen_open.format(r=name, list=_listed(game, world.inside[r]))
    return dialect.seen_closed.format(r=name)


def inspected(world: World, o: int) -> str:
    """What examining the held object ``o`` shows: the first sentence whose conditions hold."""
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
    """What the agent carries."""
    game = world.game
    if world.held < 0:
        return game.dialect.empty_handed
    return game.dialect.carrying.format(list=game.dialect.article + game.object_names[world.held])


def look(world: World) -> str:
    """The reply to ``look``."""
    game, dialect = world.game, world.game.dialect
    here = game.at_location[world.location]
    if not here:
        return dialect.middle.format(list="nothing")  # the engine looks for receptacles *at this place*
    facing = [game.receptacle_names[r] + _openness(world, r) for r in here]
    around = world.around[world.location]
    fallen = [
        game.object_names[o] for o in bits(around) for r in here if world.missing.get(r, 0) >> o & 1
    ]  # once per receptacle it was taken from
    return dialect.facing.format(list=enumerate_names(facing, "")) + dialect.beside.format(
        list=enumerate_names(fallen, dialect.article)
    )


def _openness(world: World, r: int) -> str:
    if not world.game.openable >> r & 1:
        return ""
    return world.game.dialect.state_open if world.opened >> r & 1 else world.game.dialect.state_closed


def intro(world: World) -> str:
    """The first observation: all receptacles that stand somewhere, and the task."""
    game = world.game
    if game.at_location[world.location]:
        scene = look(world)
    else:
        names = [name for r, name in enumerate(game.receptacle_names) if game.home[r] >= 0]
        scene = game.dialect.middle.format(list=enumerate_names(names, game.dialect.article))
    return game.dialect.welcome.format(look=scene, task=game.task_line)
