"""State abstraction: the part of a state that matters for the goal, as a small canonical problem.

Most of a house cannot influence the shortest plan. A ``Reduced`` keeps the objects of the goal's type and the locations
that are needed to use them, without names; of equal locations it keeps one. States with equal abstractions have equal
distances, so the oracle searches and caches abstractions.

The abstraction preserves distances:

* Closing never enables anything, and an opening or a walk can always be postponed until right before the command that
  needs it. So a shortest plan is a sequence of *macro-actions* (take, put, treat, switch on), each preceded by at most
  one walk and one opening.
* An irrelevant object matters only while it is held, as it must be put down first.
* Two locations with equal receptacles and no relevant object can be exchanged in any plan, and no plan needs both:
  the one where an object is put down becomes a location of another kind.
"""

from __future__ import annotations

from typing import NamedTuple

from creditflow.envs.alfworld.game import Game, bits
from creditflow.envs.alfworld.world import World

__all__ = ["EMPTY", "OTHER", "Place", "Reduced", "reduce_world"]

EMPTY, OTHER = -1, -2  # the held object: none, or an irrelevant one


class Place(NamedTuple):
    """The relevant properties of a receptacle.

    Attributes:
        goal: it is of the goal's type.
        treats: its appliance gives the wanted property.
        closed: it must be opened before use.
        fits: objects of the goal's type may be put in.
        fits_other: the irrelevant object that is held may be put in.
        items: mask over the reduced objects.
        lamps: mask over the reduced lamps.
    """

    goal: bool
    treats: bool
    closed: bool
    fits: bool
    fits_other: bool
    items: int
    lamps: int


class Reduced(NamedTuple):
    """An abstract problem in canonical form; hashable.

    Attributes:
        stands: receptacles per location: first the agent's location, last those that cannot be reached.
        unreachable: how many of the last locations cannot be reached (0 or 1).
        held: a reduced object, ``EMPTY`` or ``OTHER``.
        treated: mask of objects that have the wanted property (all, if none is wanted).
        loose: mask of objects that can be picked up.
        lit: mask of lamps that were switched on.
        needed: number of objects that must lie in one receptacle; 0 for looking at one under a lamp.
    """

    stands: tuple[tuple[Place, ...], ...]
    unreachable: int
    held: int
    treated: int
    loose: int
    lit: int
    needed: int


def reduce_world(world: World) -> Reduced:
    """Return the abstraction of a state."""
    game, goal = world.game, world.game.goal
    goal_items = game.targets if goal.looks else game.candidates
    items, lamps = bits(goal_items), bits(game.lamps)
    held = world.held
    other_held = held if held >= 0 and not goal_items >> held & 1 else -1
    where = _Where(game, world, items, lamps, other_held)
    current = where.location(game.at_location[world.location], keep_plain=held >= 0)
    elsewhere: list[tuple[Place, ...]] = []
    alike: set[tuple[Place, ...]] = set()
    for location, receptacles in enumerate(game.at_location):
        stand = where.location(receptacles, keep_plain=held >= 0) if location != world.location else ()
        if stand and stand not in alike:
            elsewhere.append(stand)
            if not any(spot.items for spot in stand):  # an object may lie in two places: those are never merged
                alike.add(stand)
    nowhere = where.location(tuple(r for r, home in enumerate(game.home) if home < 0), keep_plain=False)
    treated = {"clean": world.clean, "hot": world.hot, "cool": world.cool}.get(goal.quality, -1)
    return Reduced(
        (current, *sorted(elsewhere), *((nowhere,) if nowhere else ())),
        int(bool(nowhere)),
        EMPTY if held < 0 else OTHER if other_held >= 0 else items.index(held),
        _renumber(treated, items),
        _renumber(game.pickupable, items),
        _renumber(world.toggled, lamps),
        0 if goal.looks else goal.count,
    )


def _renumber(mask: int, numbers: list[int]) -> int:
    return sum(1 << i for i, number in enumerate(numbers) if mask >> number & 1)


class _Where:
    """Abstraction of the receptacles of one state."""

    def __init__(self, game: Game, world: World, items: list[int], lamps: list[int], other: int) -> None:
        self.items, self.lamps, self.other = items, lamps, other
        self.game, self.world = game, world
        self.item_mask = sum(1 << o for o in items)
        self.lamp_mask = sum(1 << o for o in lamps)
        self.treating = {"clean": game.sinks, "hot": game.microwaves, "cool": game.fridges}.get(game.goal.quality, 0)
        self.goals = sum(1 << r for r in game.goal_places)

    def location(self, receptacles: tuple[int, ...], *, keep_plain: bool) -> tuple[Place, ...]:
        """Return the relevant receptacles of one location, in canonical order.

        ``keep_plain`` keeps those that only serve to put down the held object.
        """
        reduced = []
        for r in receptacles:
            receptacle = self._place(r)
            if (
                receptacle.goal
                or receptacle.treats
                or receptacle.items
                or receptacle.lamps
                or (keep_plain and (receptacle.fits_other if self.other >= 0 else receptacle.fits))
            ):
                reduced.append(receptacle)
        reduced.sort()
        return tuple(reduced)

    def _place(self, r: int) -> Place:
        game, world = self.game, self.world
        inside = world.inside[r]
        return Place(
            bool(self.goals >> r & 1),
            bool(self.treating >> r & 1),
            bool(game.openable & ~world.opened & 1 << r),
            bool(game.fits[r] & self.item_mask),
            self.other >= 0 and bool(game.fits[r] >> self.other & 1),
            _renumber(inside, self.items) if inside & self.item_mask else 0,
            _renumber(inside, self.lamps) if inside & self.lamp_mask else 0,
        )
