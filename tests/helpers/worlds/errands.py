"""Errands of the ALFWorld fuzzer: command sequences that lead to branches which random commands hardly ever reach."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from creditflow.envs.alfworld.game import bits
from creditflow.envs.alfworld.world import World

__all__ = ["ERRANDS", "errand"]


def reach(world: World, r: int) -> Iterator[str]:
    """Walk to a receptacle and open it."""
    name = world.game.receptacle_names[r]
    if world.game.home[r] != world.location:
        yield f"go to {name}"
    if world.game.openable >> r & 1 and not world.opened >> r & 1:
        yield f"open {name}"


def fetch(world: World, things: int, pick: Any) -> Iterator[str]:
    """Take one of some objects, after putting down what is held."""
    game = world.game
    if world.held >= 0:
        spots = [r for r in range(len(game.fits)) if game.fits[r] >> world.held & 1 and game.home[r] >= 0]
        if not spots:
            return
        r = pick(spots)
        yield from reach(world, r)
        yield game.dialect.put.format(o=game.object_names[world.held], r=game.receptacle_names[r])
    finds = [
        (o, r)
        for r, mask in enumerate(world.inside)
        for o in bits(mask & things & game.pickupable)
        if game.home[r] >= 0
    ]
    if finds:
        o, r = pick(finds)
        yield from reach(world, r)
        yield f"take {game.object_names[o]} from {game.receptacle_names[r]}"


def errand(world: World, kind: str, pick: Any) -> Iterator[str]:
    """Commands that lead to a rare branch from the current state; some may be inadmissible, which is compared too."""
    game = world.game
    everything = (1 << len(game.object_ids)) - 1
    if kind == "slice":
        yield from fetch(world, game.knives, pick)
        spots = [p for p, mask in enumerate(world.around) if mask & game.sliceable and game.at_location[p]]
        if spots and world.held >= 0:
            place = pick(spots)
            yield f"go to {game.receptacle_names[game.at_location[place][0]]}"
            for o in bits(world.around[place] & game.sliceable):
                yield f"slice {game.object_names[o]} with {game.object_names[world.held]}"
            yield from fetch(world, world.sliced, pick)
            yield from treat(world, pick)
    elif kind == "floor":
        shared = [here for here in game.at_location if len(here) > 1]
        for here in shared[:2]:
            inside = sum(1 << o for o in range(len(game.object_ids)) if any(world.inside[r] >> o & 1 for r in here))
            yield from fetch(world, inside, pick)
            for r in (*here, here[0]):
                if world.held >= 0:
                    yield from reach(world, r)
                    yield game.dialect.put.format(o=game.object_names[world.held], r=game.receptacle_names[r])
                    yield "look"
    elif kind == "properties":
        yield from fetch(
            world, game.cleanable & game.heatable & game.coolable & ~game.containers or game.cleanable, pick
        )
        yield from treat(world, pick)
    elif kind == "doubled":
        twice = sum(1 << o for o in bits(everything) if sum(mask >> o & 1 for mask in world.inside) > 1)
        yield from fetch(world, twice, pick)
        if world.held >= 0:
            o = world.held
            homes = [r for r, mask in enumerate(world.inside) if mask >> o & 1 and game.home[r] >= 0]
            for r in homes:
                yield from reach(world, r)
                yield f"examine {game.receptacle_names[r]}"
                yield f"take {game.object_names[o]} from {game.receptacle_names[r]}"
                yield game.dialect.put.format(o=game.object_names[o], r=game.receptacle_names[r])
                yield f"take {game.object_names[o]} from {game.receptacle_names[r]}"
                yield "look"
    elif kind == "containers":
        full = sum(1 << o for o, mask in enumerate(game.inner) if mask)
        yield from fetch(world, full or game.containers, pick)
        yield from treat(world, pick)
    elif kind == "lamps":
        for r, mask in enumerate(world.inside):
            for o in bits(mask & game.toggleable):
                yield from reach(world, r) if game.home[r] >= 0 else ()
                yield f"use {game.object_names[o]}"
                yield f"use {game.object_names[o]}"
                yield from fetch(world, 1 << o, pick)  # lamps can be taken in the fuzzer's own games only
                yield f"examine {game.object_names[o]}"
                return


def treat(world: World, pick: Any) -> Iterator[str]:
    """Clean, heat and cool what is held, in an order that shows every combination, and examine it each time."""
    game = world.game
    if world.held < 0:
        return
    name = game.object_names[world.held]
    yield f"examine {name}"
    means = {"cool": game.fridges, "heat": game.microwaves, "clean": game.sinks}
    orders = (("cool", "heat", "clean", "cool"), ("clean", "cool", "heat", "cool"), ("heat", "cool", "clean", "heat"))
    for verb in pick(orders):
        places = means[verb]
        for r in bits(places)[:1]:
            if game.home[r] != world.location:
                yield f"go to {game.receptacle_names[r]}"
            yield f"{verb} {name} with {game.receptacle_names[r]}"
            yield f"examine {name}"


ERRANDS = ("slice", "floor", "properties", "doubled", "containers", "lamps")
