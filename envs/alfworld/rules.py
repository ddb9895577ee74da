"""The rules: which commands are admissible, and what they change. The replies are in ``replies.py``.

States and replies equal those of TextWorld's PDDL engine on released ALFWorld games, byte for byte, including what looks
like mistakes: heating works with a closed microwave, an object put down next to where it was taken is listed as "next
to" the place, ``use`` always "turns on", ``look`` at the start sees nothing, and containers never show that they are clean.
"""

from __future__ import annotations

from creditflow.envs.alfworld.actions import AdmissibleCommands, ParsedCommand
from creditflow.envs.alfworld.game import COMMANDS_CACHED, bits
from creditflow.envs.alfworld.replies import inspected, inventory, look, seen
from creditflow.envs.alfworld.world import World

__all__ = ["act", "admissible_commands"]


# -- admissible commands ---------------------------------------------------------------------------------------------
def admissible_commands(world: World) -> AdmissibleCommands:
    """The admissible commands of a state, cached per game (they depend on a small part of the state)."""
    game, held, location = world.game, world.held, world.location
    inside = world.inside
    receptacles = game.at_location[location]
    knife = held >= 0 and game.knives >> held & 1
    key = (
        location,
        held,
        world.opened & game.location_masks[location],
        world.around[location] & game.sliceable if knife else 0,
        *[inside[r] for r in receptacles],
    )
    listed: AdmissibleCommands | None = game.listed_commands.get(key)
    if listed is None:
        listed = _list_commands(world)
        if len(game.listed_commands) >= COMMANDS_CACHED:
            game.listed_commands.clear()
        game.listed_commands[key] = listed
    return listed


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
    """Add the commands that the receptacle ``r`` allows to an agent standing at it."""
    game, held, receptacle = world.game, world.held, world.game.receptacle_names[r]
    commands[f"examine {receptacle}"] = ParsedCommand("examine", -1, r)
    accessible = True
    if game.openable >> r & 1:
        accessible = bool(world.opened >> r & 1)
        verb = "close" if accessible else "open"
        commands[f"{verb} {receptacle}"] = ParsedCommand(verb, -1, r)
    for o in bits(world.inside[r] & game.toggleable):
        commands[f"use {game.object_names[o]}"] = ParsedCommand("use", o, r)
    if held < 0:
        if accessible:
            for o in bits(world.inside[r] & game.pickupable):
                commands[f"take {game.object_names[o]} from {receptacle}"] = ParsedCommand("take", o, r)
        return
    name = game.object_names[held]
    if accessible and game.fits[r] >> held & 1:
        commands[game.dialect.put.format(o=name, r=receptacle)] = ParsedCommand("put", held, r)
    for verb, places, things in (
        ("clean", game.sinks, game.cleanable),
        ("heat", game.microwaves, game.heatable),
        ("cool", game.fridges, game.coolable),
    ):
        if places >> r & 1 and things >> held & 1:
            commands[f"{verb} {name} with {receptacle}"] = ParsedCommand(verb, held, r)


# -- effects ---------------------------------------------------------------------------------------------------------
def act(world: World, parsed: ParsedCommand) -> tuple[str, bool]:
    """Execute an admissible command.

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
    return _with_names(world, world.game.dialect.taken, parsed), True


def _put(world: World, parsed: ParsedCommand) -> tuple[str, bool]:
    bit = 1 << parsed.obj
    world.held = -1
    world.inside[parsed.receptacle] |= bit
    world.around[world.location] |= bit
    if parsed.receptacle in world.missing:
        world.missing[parsed.receptacle] &= ~bit
    return _with_names(world, world.game.dialect.moved, parsed), True


def _clean(world: World, parsed: ParsedCommand) -> tuple[str, bool]:
    before = world.clean
    world.clean |= 1 << parsed.obj
    return _with_names(world, world.game.dialect.cleaned, parsed), world.clean != before


def _heat(world: World, parsed: ParsedCommand) -> tuple[str, bool]:
    before = world.hot, world.cool
    world.hot |= 1 << parsed.obj
    world.cool &= ~(1 << parsed.obj)
    return _with_names(world, world.game.dialect.heated, parsed), (world.hot, world.cool) != before


def _cool(world: World, parsed: ParsedCommand) -> tuple[str, bool]:
    before = world.hot, world.cool
    world.cool |= 1 << parsed.obj
    world.hot &= ~(1 << parsed.obj)
    return _with_names(world, world.game.dialect.cooled, parsed), (world.hot, world.cool) != before


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


def _with_names(world: World, template: str, parsed: ParsedCommand) -> str:
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
