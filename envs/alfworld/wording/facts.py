"""The true facts of a state as strings."""

from __future__ import annotations

from creditflow.envs.alfworld.game import bits
from creditflow.envs.alfworld.world import World

__all__ = ["true_facts"]


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
