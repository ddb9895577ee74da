"""Replies of the engine: texts about a state, byte for byte as TextWorld writes them."""

from __future__ import annotations

from creditflow.envs.alfworld.game import TEXTS_CACHED, Game, bits
from creditflow.envs.alfworld.wording.dialect import EXAMINE_CONDITIONS
from creditflow.envs.alfworld.world import World

__all__ = ["enumerate_names", "inspected", "intro", "inventory", "look", "seen"]


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
